import OTALinks
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

    /// Reads lines with a packet and our COBS frame of it, and prints the frame of smpclient and the packet that smpclient decodes.
    private static let cobsScript = """
        import sys
        from smpclient.transport.serial.framing.cobs import Cobs
        for line in sys.stdin:
            packet, ours = [bytes.fromhex(part) for part in line.split(",")]
            cobs = Cobs()
            cobs.feed(ours)
            print(b"".join(cobs.encode(packet)).hex(), cobs.take().hex(), sep=",")
        """

    @Test("smpclient writes the same COBS frames and reads the same packets for all tested lengths")
    func cobsBothWays() async throws {
        var random = SplitMix64(seed: 5)
        // Runs of 253 to 255 bytes without a 0 are the limits of a group.
        let runs = (250...256).map { [UInt8](repeating: 7, count: $0) } + [[UInt8](repeating: 0, count: 600)]
        let packets = (Array(1...280) + [1500, 20_000]).map { random.bytes($0) } + runs
        let framed = packets.map { COBSFraming.frame(carrying: $0) }
        let input = zip(packets, framed).map { "\(Self.hex($0)),\(Self.hex($1))\n" }.joined()
        let peer = try await Command.run(PythonEnvironment.python, ["-c", Self.cobsScript], input: Array(input.utf8))
        #expect(peer.succeeded, "\(peer.errorText); type scripts/setup test")
        #expect(peer.outputText == zip(framed, packets).map { "\(Self.hex($0)),\(Self.hex($1))\n" }.joined())
        for (frame, packet) in zip(framed, packets) {
            var decoder = COBSDecoder()
            #expect(decoder.decode(frame) == [packet])
        }
    }

    private static func hex(_ bytes: [UInt8]) -> String {
        bytes.map { byte in
            let text = String(byte, radix: 16)
            return text.count == 1 ? "0" + text : text
        }.joined()
    }
}
