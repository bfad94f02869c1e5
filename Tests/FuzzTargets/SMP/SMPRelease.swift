import OTAFirmware
import OTASMP
import OTASigning
import OTASimulator
import OTAUpdate

/// Images for a device with two processors, the same in every process.
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
        case 2: .discard
        case 3: .identify(seconds: number)
        case 4: .push(images, options)
        default: .push(Array(images.prefix(1)), options)
        }
    }

    /// What a device lists. Of the running image: (1) it is ours, (2) it is confirmed; of the other slot: (4) ours is there,
    /// (8) for the next start, (16) for good; (32) there are two processors; (64) another digest; (128) no version.
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
