import OTASerial
import OTATestSupport
import OTAUpdate
import SystemPackage
import Testing

/// Compares ConsoleFraming with the library smp from PyPI.
@Suite("Serial framing compared with the Python library smp") struct SMPPeerTests {
    /// Reads lines with a packet and our framing of it, in hexadecimal.
    ///
    /// For each line it prints the framing by smp of the packet, and the packet that smp decodes from our framing.
    private static let script = """
        import sys
        from smp.packet import decode, encode
        for line in sys.stdin:
            packet, ours = [bytes.fromhex(part) for part in line.split(",")]
            decoder = decode()
            next(decoder)
            try:
                for part in ours.splitlines(keepends=True):
                    decoder.send(part)
            except StopIteration as end:
                print(b"".join(encode(packet)).hex(), end.value.hex(), sep=",")
        """

    @Test("the library smp writes the same lines and reads the same packets for all tested lengths")
    func bothWaysOfEveryLength() async throws {
        var random = SplitMix64(seed: 4)
        let packets = (Array(0...280) + [384, 1500, 2475, 20_000]).map { random.bytes($0) }
        let framed = packets.compactMap { ConsoleFraming.lines(carrying: $0) }
        let python = PythonEnvironment.python
        let input = zip(packets, framed).map { "\(Self.hex($0)),\(Self.hex($1))\n" }.joined()
        let peer = try await Command.run(python, ["-c", Self.script], input: Array(input.utf8))
        #expect(peer.succeeded, "\(peer.errorText); type scripts/setup test")
        let expected = zip(framed, packets).map { "\(Self.hex($0)),\(Self.hex($1))\n" }.joined()
        #expect(peer.outputText == expected)
        for (lines, packet) in zip(framed, packets) {
            var decoder = ConsoleDecoder()
            #expect(decoder.decode(lines) == [packet])
        }
    }

    private static func hex(_ bytes: [UInt8]) -> String {
        bytes.map { byte in
            let text = String(byte, radix: 16)
            return text.count == 1 ? "0" + text : text
        }.joined()
    }
}
