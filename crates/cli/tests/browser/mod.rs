//! A headless Chromium, driven by its debugging protocol over two pipes
//! (`--remote-debugging-pipe`: messages are JSON, each ended by a zero byte).

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

pub struct Browser {
    child: Child,
    to: File,
    from: BufReader<File>,
    number: u64,
    session: Option<String>,
}

impl Browser {
    /// Starts one with what it keeps in `folder`.
    pub fn start(folder: &Path) -> Self {
        let (to, from) = (folder.join("to-browser"), folder.join("from-browser"));
        for pipe in [&to, &from] {
            assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
        }
        // A shell opens the pipes as the numbers that the protocol wants. Opened for
        // both directions, none waits for the other end.
        let script = "exec \"$@\" 3<>\"$TO\" 4<>\"$FROM\"";
        let child = Command::new("sh")
            .args(["-c", script, "sh", "chromium"])
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--window-size=1400,900", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", folder.join("browser").display()))
            .env("TO", &to)
            .env("FROM", &from)
            .env("HOME", folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let both = |path: &Path| File::options().read(true).write(true).open(path).unwrap();
        let (to, from) = (both(&to), BufReader::new(both(&from)));
        let mut browser = Self { child, to, from, number: 0, session: None };
        let target = browser.ask("Target.createTarget", json!({ "url": "about:blank" }));
        let wanted = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.ask("Target.attachToTarget", wanted);
        browser.session = Some(session["sessionId"].as_str().unwrap().to_owned());
        browser
    }

    fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.number += 1;
        let mut message = json!({ "id": self.number, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).unwrap();
        loop {
            let mut bytes = Vec::new();
            self.from.read_until(0, &mut bytes).unwrap();
            let answer: Value = serde_json::from_slice(&bytes[..bytes.len() - 1]).unwrap();
            if answer["id"] == json!(self.number) {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// Opens a page and waits until it is there.
    pub fn open(&mut self, address: &str) {
        self.ask("Page.navigate", json!({ "url": address }));
        while self.value("document.readyState + location.protocol") != "completefile:" {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// What an expression is, as text.
    pub fn value(&mut self, expression: &str) -> String {
        let wanted = json!({ "expression": format!("String({expression})") });
        let answer = self.ask("Runtime.evaluate", wanted);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].as_str().unwrap().to_owned()
    }

    /// Presses a key, as a keyboard does.
    pub fn press(&mut self, key: &str) {
        let code = match key {
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            "Home" => 36,
            "End" => 35,
            letter => u32::from(letter.as_bytes()[0].to_ascii_uppercase()),
        };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({ "type": kind, "key": key, "windowsVirtualKeyCode": code });
            self.ask("Input.dispatchKeyEvent", event);
        }
    }

    /// A picture of the page, as PNG.
    pub fn picture(&mut self) -> Vec<u8> {
        let answer = self.ask("Page.captureScreenshot", json!({}));
        decode(answer["data"].as_str().unwrap())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Base64.
fn decode(text: &str) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |letter| LETTERS.iter().position(|it| *it == letter).unwrap() as u32;
    let mut bytes = Vec::new();
    let letters: Vec<u8> = text.bytes().filter(|letter| *letter != b'=').collect();
    for part in letters.chunks(4) {
        let bits = part.iter().fold(0, |bits, &letter| bits << 6 | digit(letter));
        let bits = bits << (6 * (4 - part.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..part.len()]);
    }
    bytes
}
