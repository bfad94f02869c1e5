import OTASMP

/// What comes from a device that speaks SMP, cut into values of the length that the first byte says: it makes the same frames
/// however it is cut.
enum SMPFrameFuzz {
    static func run(_ bytes: [UInt8]) -> String? {
        var input = FuzzInput(bytes)
        let piece = 1 + Int(input.next())
        let stream = input.bytes(upTo: bytes.count)
        guard let frames = try? frames(in: stream, cutAfter: max(1, stream.count)) else { return nil }
        guard (try? self.frames(in: stream, cutAfter: piece)) == frames else {
            return "in values of \(piece) bytes there are other frames"
        }
        for frame in frames {
            if let finding = finding(in: frame) { return finding }
        }
        return nil
    }

    private static func frames(in stream: [UInt8], cutAfter piece: Int) throws -> [SMPFrame] {
        var assembler = SMPFrameAssembler()
        var frames: [SMPFrame] = []
        for start in stride(from: 0, to: stream.count, by: piece) {
            frames += try assembler.take(Array(stream[start..<min(start + piece, stream.count)]))
        }
        return frames
    }

    private static func finding(in frame: SMPFrame) -> String? {
        guard let again = try? SMPFrame(parsing: frame.bytes), again == frame else { return "another frame comes out" }
        guard let answer = try? SMPAnswer(parsing: frame.body) else { return nil }
        switch answer {
        case .bad(let error): if error.meaning.isEmpty { return "an error without a meaning" }
        case .good(let fields):
            if let parameters = try? SMPParameters(fields), !(1...1023).contains(parameters.window) {
                return "a window of \(parameters.window) packets"
            }
            if let list = try? SMPImageList(fields), list.entries.count > 32 { return "a list of many images" }
            _ = (try? SMPSlotList(fields))?.largestImage(0, running: 0)
        }
        return nil
    }
}
