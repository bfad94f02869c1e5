import OTAFirmware
import OTASMP
import OTASigning
import OTASimulator
import OTAUpdate

/// An accepted CBOR value must be the same after it is encoded and decoded again.
enum CBORFuzz {
    static func run(_ bytes: [UInt8]) -> String? {
        guard let value = try? CBORDecoder.decode(bytes) else { return nil }
        let written = CBOREncoder.encode(value)
        // The encoding can be longer: a float of two bytes is written with eight.
        guard written.count <= CBORDecoder.longest else { return nil }
        guard let again = try? CBORDecoder.decode(written) else { return "the encoded value cannot be decoded" }
        // The bytes are compared and not the values, because NaN is not equal to itself.
        return CBOREncoder.encode(again) == written ? nil : "the decoded value differs"
    }
}

/// Reassembles SMP frames from values. The first byte determines the length of the values.
///
/// Every length must give the same frames. An accepted frame must be the same after it is encoded and parsed again.
enum SMPFrameFuzz {
    static func run(_ bytes: [UInt8]) -> String? {
        var input = FuzzInput(bytes)
        let piece = 1 + Int(input.next())
        let stream = input.bytes(upTo: bytes.count)
        guard let frames = try? frames(in: stream, cutAfter: max(1, stream.count)) else { return nil }
        guard (try? self.frames(in: stream, cutAfter: piece)) == frames else {
            return "the frames differ with values of \(piece) bytes"
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
        guard let again = try? SMPFrame(parsing: frame.bytes), again == frame else { return "the parsed frame differs" }
        guard let answer = try? SMPAnswer(parsing: frame.body) else { return nil }
        switch answer {
        case .bad(let error): if error.meaning.isEmpty { return "an error has no meaning" }
        case .good(let fields):
            if let window = SMPParameters(fields).window, !(1...1023).contains(window) {
                return "a window of \(window) packets"
            }
            if let list = try? SMPImageList(fields), list.entries.count > 32 {
                return "an image list with more than 32 images is accepted"
            }
            _ = (try? SMPSlotList(fields))?.largestImage(0, running: 0)
        }
        return nil
    }
}

/// Images for a device with two processors. They are the same in every process.
struct SMPRelease {
    let images: [SMPImage]

    init() throws {
        let key = try PrivateKey(seed: [UInt8](repeating: 7, count: 32))
        let verifier = Verifier(trust: try TrustStore([key.publicKey]))
        images = try (0...1).map { number in
            let body = (0..<600).map { UInt8(truncatingIfNeeded: ($0 + number) % 251) }
            let file = try SampleImage((1, 1, 0, 0), body: body, key: key).bytes()
            return SMPImage(try verifier.verify(try MCUbootFile(parsing: file)), number: number)
        }
    }

    func task(_ number: UInt8) -> UpdateTask<[SMPImage]> {
        let endings = [UpdateOptions.Ending.confirm, .trial, .permanent, .uploadOnly]
        let options = UpdateOptions(ending: endings[Int(number >> 3 & 3)], refusesDowngrade: number & 0x20 != 0)
        return switch number % 8 {
        case 0: .status
        case 1: .confirm
        case 2: .discard(erasesImage: number & 0x40 != 0)
        case 3: .identify(seconds: number)
        case 4: .push(images, options)
        default: .push(Array(images.prefix(1)), options)
        }
    }

    /// Returns a device's image list. Bits of `variant`:
    ///
    /// - 1: the running image is from this release; 2: it is confirmed.
    /// - 4: the image in the other slot is from this release; 8: it is marked for boot; 16: permanently.
    /// - 32: the device has two processors; 64: foreign digests have 64 bytes; 128: the versions are empty.
    func list(_ variant: UInt8) -> CBORValue {
        let isLong = variant & 64 != 0
        let old = [UInt8](repeating: 1, count: isLong ? 64 : 32)
        let listed = images.prefix(variant & 32 == 0 ? 1 : 2).flatMap { (image: SMPImage) -> [CBORValue] in
            let ours = image.verified.image.tlvs.first { $0.type == MCUbootTLV.sha256 }?.value ?? []
            return (0...1).map { (slot: Int) -> CBORValue in
                let isOurs = variant & (slot == 0 ? 1 : 4) != 0
                return CBORValue.map([
                    "image": CBORValue(image.number), "slot": CBORValue(slot),
                    "version": .text(variant & 128 != 0 ? "" : isOurs ? "1.1.0" : "1.0.0"),
                    "hash": .bytes(isOurs ? ours : old), "bootable": .bool(true), "active": .bool(slot == 0),
                    "confirmed": .bool(slot == 0 && variant & 2 != 0),
                    "pending": .bool(slot == 1 && variant & 8 != 0),
                    "permanent": .bool(slot == 1 && variant & 16 != 0),
                ])
            }
        }
        return .array(listed)
    }
}
