import BlueZ
import ExampleSupport
import TerminalText
import Testing

@Suite("Examples: text of another machine")
struct ShownTests {
    @Test(
        "control characters, line breaks and invisible characters are escaped",
        arguments: [
            ("a\u{1B}[2J\u{7}", "a\\u{1B}[2J\\u{07}"), ("\u{9B}31m", "\\u{009B}31m"),
            ("one\r\ntwo\tthree", "one\\r\\ntwo\\tthree"),
            ("\u{202E}boB\u{2066}", "\\u{202E}boB\\u{2066}"), ("a\u{2028}b\u{2029}", "a\\u{2028}b\\u{2029}"),
            ("Bob\u{200B}\u{FEFF}\u{3164}\u{115F}", "Bob\\u{200B}\\u{FEFF}\\u{3164}\\u{115F}"),
            ("Bob\u{200D}", "Bob\\u{200D}"), ("👋\u{200D}", "👋\\u{200D}"), ("👋\u{FE0F}", "👋\\u{FE0F}"),
            ("1\u{FE0F}", "1\\u{FE0F}"), ("\u{200D}👋", "\\u{200D}👋"),
        ])
    func escapes(text: String, expected: String) { #expect(shown(text) == expected) }

    @Test(
        "letters of all languages and emoji do not change",
        arguments: ["", "Grüße, 你好 👋", "e\u{301}", "👨‍👩‍👧", "❤️‍🔥", "👋🏽", "☀️", "🏳️‍🌈", "'\"\\"])
    func keeps(text: String) { #expect(shown(text) == text) }

    @Test("a Bluetooth error with the name of a device cannot control the terminal, and has a hint")
    func escapesErrors() {
        let error = BlueZError(.noSuchAdapter, "connect to \u{1B}]0;x\u{7}Bob\n")
        let expected = "connect to \\u{1B}]0;x\\u{07}Bob\\n; hint: bluetoothctl list shows the adapters"
        #expect(Failure(error).description == expected && sentence(error) == expected)
        #expect(sentence(BlueZError(.failed, "\u{202E}boB")) == "\\u{202E}boB")
    }
}
