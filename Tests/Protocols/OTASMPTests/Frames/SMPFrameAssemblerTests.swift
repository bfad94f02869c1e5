import OTASMP
import Testing

@Suite("Reassembly of SMP frames") struct SMPFrameAssemblerTests {
    private static let frames = (0..<3).map { index in
        SMPFrame(
            version: .second, operation: .readAnswer, group: 1, sequence: UInt8(index), command: 0,
            body: [UInt8](repeating: 0xBF, count: index * 40))
    }

    @Test("frames are reassembled from values of any length", arguments: [1, 2, 7, 8, 9, 20, 47, 48, 500])
    func putsTogether(length: Int) throws {
        let bytes = Self.frames.flatMap(\.bytes)
        var assembler = SMPFrameAssembler()
        var found: [SMPFrame] = []
        for start in stride(from: 0, to: bytes.count, by: length) {
            found += try assembler.take(Array(bytes[start...].prefix(length)))
        }
        #expect(found == Self.frames)
        #expect(!assembler.isInMidFrame)
    }

    @Test("a frame without its last byte is reported as incomplete")
    func tellsThatSomethingIsMissing() throws {
        var assembler = SMPFrameAssembler()
        #expect(try assembler.take(Array(Self.frames[2].bytes.dropLast())).isEmpty)
        #expect(assembler.isInMidFrame)
    }

    @Test("a malformed header is refused")
    func refusesWhatIsNoFrame() {
        var assembler = SMPFrameAssembler()
        #expect(throws: SMPFrameError.self) { try assembler.take([0xE9, 0, 0, 0, 0, 0, 0, 0]) }
    }
}
