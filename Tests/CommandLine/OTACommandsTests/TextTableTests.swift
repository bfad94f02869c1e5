import OTACommands
import Testing

@Suite("Tables for the user") struct TextTableTests {
    private static let boards = ["8F2A3C4D5E6F7081", "8F2A3C4D5E6F7099"].map {
        "serial:/dev/serial/by-id/usb-ZEPHYR_Zephyr_USB_console_\($0)-if00"
    }

    private static func text(_ table: TextTable, _ width: Int? = nil) -> [String] {
        table.lines(fitting: width).map { $0.rendered(hasColours: false) }
    }

    @Test("without a terminal, no cell is shortened")
    func complete() {
        let reason = String(repeating: "a long reason ", count: 20)
        let lines = Self.text(TextTable([.identifier("DEVICE"), "REASON"], Self.boards.map { [$0, reason] }))
        #expect(lines.count == 3 && lines[0].hasPrefix("DEVICE   "))
        for (line, board) in zip(lines.dropFirst(), Self.boards) { #expect(line == "\(board)  \(reason)") }
    }

    @Test("a terminal shortens the middle of a long text, and no identifier", arguments: [55, 60, 80])
    func shortened(width: Int) {
        let table = TextTable(
            [.identifier("ADDRESS"), "NAME", "VERSION"],
            [
                ["ble:AA:BB:CC:DD:EE:01", "Thermometer in the hall, ground floor, left of the door", "1.0"],
                ["ble:AA:BB:CC:DD:EE:02", "Hall", "1.0"],
            ])
        let lines = Self.text(table, width)
        #expect(lines.count == 3 && lines.allSatisfy { $0.unicodeScalars.count <= width }, "\(lines)")
        #expect(lines[1].hasPrefix("ble:AA:BB:CC:DD:EE:01  Thermo") && lines[1].hasSuffix("the door  1.0"), "\(lines)")
        #expect(lines[1].contains("…") && !lines[2].contains("…"), "\(lines)")
    }

    @Test("a table that is too wide for its terminal has each long identifier on a line of its own")
    func stacked() {
        let table = TextTable(
            [.identifier("DEVICE"), "RESULT", "VERSION"],
            (["sim:kitchen"] + Self.boards).map { [$0, "confirmed", "1.0.0 → 1.1.0"] })
        #expect(
            Self.text(table, 80) == [
                "DEVICE       RESULT     VERSION", "sim:kitchen  confirmed  1.0.0 → 1.1.0",
                Self.boards[0], "             confirmed  1.0.0 → 1.1.0", Self.boards[1],
                "             confirmed  1.0.0 → 1.1.0",
            ])
        #expect(Self.text(table, 110).count == 4)
        let narrow = Self.text(table, 25)
        #expect(narrow.first == "DEVICE" && narrow.contains("sim:kitchen"), "\(narrow)")
        #expect(narrow.allSatisfy { $0.unicodeScalars.count <= 25 || Self.boards.contains($0) }, "\(narrow)")
    }

    @Test("a line without its middle keeps its start, its end and the wanted width; wide characters count as two")
    func middle() {
        #expect(TerminalLine("kitchen light").shortened(to: 7).rendered(hasColours: false) == "kit…ght")
        #expect(TerminalLine("kitchen light").shortened(to: 7, keeping: 5).rendered(hasColours: false) == "k…light")
        #expect(TerminalLine("kitchen").shortened(to: 7) == "kitchen")
        for width in 0...12 {
            for end in [nil, 0, 3, 100] {
                let short = TerminalLine("温度計 thermometer").shortened(to: width, keeping: end)
                #expect(short.columns <= width)
            }
        }
        let stacked = TerminalLine("e" + String(repeating: "\u{301}", count: 10_000)).shortened(to: 10)
        #expect(stacked.rendered(hasColours: false).unicodeScalars.count < 80)
    }
}
