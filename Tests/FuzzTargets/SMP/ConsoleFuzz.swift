import OTASerial

/// What comes over a serial line, log and packets: it holds the same packets however it is cut, and whatever came before, a
/// packet gets through.
enum ConsoleFuzz {
    static func run(_ bytes: [UInt8]) -> String? {
        var input = FuzzInput(bytes)
        let place = Int(input.next())
        let stream = input.bytes(upTo: bytes.count)
        var whole = ConsoleDecoder()
        var parts = ConsoleDecoder()
        let packets = whole.decode(stream)
        let pieces = stride(from: 0, to: stream.count, by: 1 + place).map { stream[$0...].prefix(1 + place) }
        guard pieces.flatMap({ parts.decode($0) }) == packets else {
            return "in pieces of \(1 + place) bytes there are other packets"
        }
        for packet in packets + [stream] {
            guard let lines = ConsoleFraming.lines(carrying: packet) else { return "a packet that cannot be sent" }
            _ = whole.decode([UInt8(ascii: "\n")])
            guard whole.decode(lines) == [packet] else { return "behind this a packet does not get through" }
        }
        return spoilt(Array(stream.prefix(80)), at: place, by: bytes.last ?? 0)
    }

    /// One wrong byte in the line of a short packet costs the packet, and makes no other.
    private static func spoilt(_ packet: [UInt8], at place: Int, by byte: UInt8) -> String? {
        guard var lines = ConsoleFraming.lines(carrying: packet) else { return "a short packet that cannot be sent" }
        lines[place % lines.count] = byte
        var decoder = ConsoleDecoder()
        return [[], [packet]].contains(decoder.decode(lines)) ? nil : "a wrong byte makes another packet"
    }
}
