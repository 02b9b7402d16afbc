//! The list of files that the dynamic linker keeps for debuggers (`struct r_debug` and
//! `struct link_map` of `<link.h>`), in its order: that in which names are looked up.
//!
//! It is found by the executable's dynamic section, in the memory of a process that
//! runs or of one that died.

/// The program headers of an executable, as its auxiliary vector tells them.
pub(crate) struct Headers {
    /// Where they are.
    pub address: u64,
    /// How many there are.
    pub count: u64,
    /// What is added to the addresses in them.
    pub bias: u64,
}

/// A file that is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    /// What is added to the file's own addresses.
    pub bias: u64,
    /// The name under which it was loaded; empty, of the executable.
    pub name: Vec<u8>,
}

/// More than there are.
const MOST: usize = 4096;

/// The files that are loaded, the executable first; none, if no dynamic linker has come
/// so far. `read` fills bytes from an address.
pub(crate) fn links<E>(
    headers: &Headers,
    read: impl Fn(u64, &mut [u8]) -> Result<(), E>,
) -> Result<Vec<Link>, E> {
    let Some(mut link) = first(headers, &read)? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    while link != 0 && found.len() < MOST {
        let [bias, name, _, next] = words(&read, link)?;
        found.push(Link { bias, name: text(&read, name)? });
        link = next;
    }
    Ok(found)
}

/// Where the list begins.
fn first<E>(
    headers: &Headers,
    read: &impl Fn(u64, &mut [u8]) -> Result<(), E>,
) -> Result<Option<u64>, E> {
    const PT_DYNAMIC: u64 = 2;
    const DT_DEBUG: u64 = 21;
    for number in 0..headers.count.min(64) {
        // Kind and flags, offset, address.
        let [kind, _, address] = words(read, headers.address.wrapping_add(56 * number))?;
        if kind & 0xffff_ffff != PT_DYNAMIC {
            continue;
        }
        let table = address.wrapping_add(headers.bias);
        for entry in 0..1024 {
            let [tag, value] = words(read, table.wrapping_add(16 * entry))?;
            match tag {
                0 => break,
                DT_DEBUG if value != 0 => {
                    let [_, first] = words(read, value)?;
                    return Ok(Some(first));
                }
                _ => {}
            }
        }
    }
    Ok(None)
}

fn words<const N: usize, E>(
    read: &impl Fn(u64, &mut [u8]) -> Result<(), E>,
    address: u64,
) -> Result<[u64; N], E> {
    let mut words = [0; N];
    for (number, word) in words.iter_mut().enumerate() {
        let mut bytes = [0; 8];
        read(address.wrapping_add(8 * number as u64), &mut bytes)?;
        *word = u64::from_le_bytes(bytes);
    }
    Ok(words)
}

/// Bytes up to one that is 0.
fn text<E>(read: &impl Fn(u64, &mut [u8]) -> Result<(), E>, address: u64) -> Result<Vec<u8>, E> {
    let mut text = Vec::new();
    while text.len() < 4096 {
        let mut byte = [0];
        read(address.wrapping_add(text.len() as u64), &mut byte)?;
        if byte == [0] {
            break;
        }
        text.push(byte[0]);
    }
    Ok(text)
}
