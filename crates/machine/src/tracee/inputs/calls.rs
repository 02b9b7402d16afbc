//! The table of system calls (`calls.txt`), read.

use std::sync::OnceLock;

/// How long something is that a call writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// So many bytes.
    Bytes(u64),
    /// As many as are returned, times, and more.
    Returned(u64, u64),
    /// As an argument says, times.
    Argument(usize, u64),
    /// As many bits as an argument says, in whole words.
    Bits(usize),
    /// As many bytes as an argument has pages.
    Pages(usize),
    /// As the number says that an argument points to.
    Pointed(usize),
}

/// What a call writes, or how it is treated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Bytes at this argument; of addresses or times that may differ if `is_loose`.
    Bytes {
        /// Which argument.
        argument: usize,
        /// How many.
        length: Length,
        /// Whether they may differ.
        is_loose: bool,
    },
    /// By a rule of this name, with arguments.
    Rule(&'static str, Vec<usize>),
}

/// A system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its name.
    pub name: &'static str,
    /// What it writes.
    pub outputs: Vec<Output>,
}

impl Call {
    /// Whether it is treated by the rule of this name.
    pub fn is(&self, rule: &str) -> bool {
        self.outputs.iter().any(|it| matches!(it, Output::Rule(name, _) if *name == rule))
    }
}

/// The call of this number, if there is one.
pub fn of(number: u64) -> Option<&'static Call> {
    static TABLE: OnceLock<Vec<Option<Call>>> = OnceLock::new();
    let table = TABLE.get_or_init(|| read(include_str!("calls.txt")));
    table.get(usize::try_from(number).ok()?)?.as_ref()
}

/// Its name, or number.
pub fn name(number: u64) -> String {
    of(number).map_or_else(|| format!("system call number {number}"), |it| it.name.to_owned())
}

fn read(text: &'static str) -> Vec<Option<Call>> {
    let mut table = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let number = words.next().and_then(|it| it.parse::<usize>().ok());
        let (Some(number), Some(name)) = (number, words.next()) else { continue };
        let outputs = words.filter_map(output).collect();
        table.resize(table.len().max(number + 1), None);
        table[number] = Some(Call { name, outputs });
    }
    table
}

fn output(word: &'static str) -> Option<Output> {
    let numbers = |list: &str| list.split(',').filter_map(|it| it.parse().ok()).collect();
    if let Some((name, list)) = word.split_once('(') {
        return Some(Output::Rule(name, numbers(list.trim_end_matches(')'))));
    }
    let Some((argument, length)) = word.split_once('[') else {
        return Some(Output::Rule(word, Vec::new()));
    };
    let (argument, is_loose) = match argument.strip_prefix('~') {
        Some(argument) => (argument, true),
        None => (argument, false),
    };
    let length = length.trim_end_matches(']');
    let argument = argument.parse().ok()?;
    Some(Output::Bytes { argument, length: read_length(length)?, is_loose })
}

fn read_length(text: &str) -> Option<Length> {
    if let Some(pointed) = text.strip_prefix('*') {
        return Some(Length::Pointed(pointed.parse().ok()?));
    }
    if let Some(rest) = text.strip_prefix("ret") {
        return Some(match (rest.strip_prefix('*'), rest.strip_prefix('+')) {
            (Some(times), _) => Length::Returned(times.parse().ok()?, 0),
            (_, Some(more)) => Length::Returned(1, more.parse().ok()?),
            _ => Length::Returned(1, 0),
        });
    }
    let Some(argument) = text.strip_prefix('a') else {
        return Some(Length::Bytes(text.parse().ok()?));
    };
    Some(match (argument.split_once('*'), argument.split_once('/')) {
        (Some((argument, times)), _) => {
            Length::Argument(argument.parse().ok()?, times.parse().ok()?)
        }
        (_, Some((argument, "8"))) => Length::Bits(argument.parse().ok()?),
        (_, Some((argument, _))) => Length::Pages(argument.parse().ok()?),
        _ => Length::Argument(argument.parse().ok()?, 1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No word of the table is lost or misread.
    #[test]
    fn the_table_is_read_as_it_is_written() {
        const RULES: [&str; 19] = [
            "?",
            "address",
            "arch_prctl",
            "dents",
            "epoll",
            "fcntl",
            "ioctl",
            "iov",
            "memory",
            "mmap",
            "mmsg",
            "msg",
            "prctl",
            "ptrace",
            "random",
            "restart",
            "rseq",
            "skip",
            "stat",
        ];
        let mut last = None;
        for line in include_str!("calls.txt").lines().filter(|it| !it.starts_with('#')) {
            let mut words = line.split(' ');
            let number: u64 = words.next().unwrap().parse().unwrap();
            assert!(last < Some(number), "{line}");
            last = Some(number);
            let call = of(number).unwrap();
            assert_eq!(Some(call.name), words.next());
            assert_eq!(call.outputs.len(), words.clone().count(), "{line}");
            for (output, word) in call.outputs.iter().zip(words) {
                let written = match output {
                    Output::Bytes { argument, length, is_loose } => {
                        assert!(*argument < 6, "{line}");
                        let length = match *length {
                            Length::Bytes(bytes) => bytes.to_string(),
                            Length::Returned(1, 0) => "ret".to_owned(),
                            Length::Returned(1, more) => format!("ret+{more}"),
                            Length::Returned(times, _) => format!("ret*{times}"),
                            Length::Argument(argument, 1) => format!("a{argument}"),
                            Length::Argument(argument, times) => format!("a{argument}*{times}"),
                            Length::Bits(argument) => format!("a{argument}/8"),
                            Length::Pages(argument) => format!("a{argument}/4096"),
                            Length::Pointed(argument) => format!("*{argument}"),
                        };
                        format!("{}{argument}[{length}]", if *is_loose { "~" } else { "" })
                    }
                    Output::Rule(name, arguments) => {
                        assert!(RULES.contains(name) || *name == "statx", "{line}");
                        let list: Vec<String> = arguments.iter().map(usize::to_string).collect();
                        match list.is_empty() {
                            true => (*name).to_owned(),
                            false => format!("{name}({})", list.join(",")),
                        }
                    }
                };
                assert_eq!(written, word, "{line}");
            }
        }
        assert_eq!(name(318), "getrandom");
        assert_eq!(name(100_000), "system call number 100000");
    }
}
