import OTAFirmware
import OTASMP
import OTASigning
import OTAUpdate
import Testing

/// Pushes of a compressed image. The bootloader decompresses the image, and the running image has the digest of the decompressed image.
@Suite("Push of a compressed image over SMP") struct SMPUnpackedImageTests {
    private let old = PlayedSlots.Image(digest: [UInt8](repeating: 1, count: 32), version: "1.0.0")
    private static let unpacked = [UInt8](repeating: 7, count: 32)

    /// Pushes an image to a device whose bootloader replaces the digest of the image at its restart.
    private func play(_ image: VerifiedImage, digestAfterRestart: [UInt8], _ ending: UpdateOptions.Ending)
        -> PlayedDevice
    {
        let slots = PlayedSlots(running: [0: old], known: [image.fileDigest.bytes: image.listed()])
        return PlayedDevice(.push([SMPImage(image)], UpdateOptions(ending: ending))) { frame, _ in
            let reply = slots.answer(frame)
            if frame.group == 0, frame.command == 5 { slots.replaceRunningDigest(digestAfterRestart) }
            return reply
        }
    }

    @Test(
        "the digest of the decompressed image is the new image", arguments: [UpdateOptions.Ending.confirm, .permanent])
    func theUnpackedDigest(ending: UpdateOptions.Ending) throws {
        let image = try ExampleImage.compressed(unpacked: Self.unpacked)
        let played = play(image, digestAfterRestart: Self.unpacked, ending)
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
        let again = PlayedSlots(
            running: [0: PlayedSlots.Image(digest: Self.unpacked, version: "1.1.0")], known: [:])
        let second = PlayedDevice(.push([SMPImage(image)], UpdateOptions())) { frame, _ in again.answer(frame) }
        #expect(second.report?.outcome == .alreadyRunning)
    }

    @Test("a running image with neither digest is another image")
    func anotherDigest() throws {
        let image = try ExampleImage.compressed(unpacked: Self.unpacked)
        let other = [UInt8](repeating: 8, count: 32)
        #expect(play(image, digestAfterRestart: other, .confirm).error == .rolledBack)
        #expect(play(try ExampleImage.make(), digestAfterRestart: Self.unpacked, .confirm).error == .rolledBack)
    }

    // The signature covers only protected TLVs.
    @Test("the digest of the decompressed image counts only in a protected TLV")
    func anUnprotectedDigest() throws {
        let image = try ExampleImage.compressed(unpacked: Self.unpacked, isProtected: false)
        #expect(play(image, digestAfterRestart: Self.unpacked, .confirm).error == .rolledBack)
    }
}
