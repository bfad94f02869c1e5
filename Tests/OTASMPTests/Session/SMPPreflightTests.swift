import OTAFirmware
import OTASMP
import OTASigning
import OTAUpdate
import Testing

@Suite("Preflight checks of an SMP push") struct SMPPreflightTests {
    private func running(_ version: String = "1.0.0", digest length: Int = 32, confirmed: Bool = true)
        -> PlayedSlots.Image
    {
        PlayedSlots.Image(digest: [UInt8](repeating: 1, count: length), version: version, confirmed: confirmed)
    }

    private func slots(_ running: PlayedSlots.Image, _ image: VerifiedImage) -> PlayedSlots {
        PlayedSlots(running: [0: running], known: [image.fileDigest.bytes: image.listed()])
    }

    @Test("an image of exactly the slot's size is sent, and an image one byte larger is refused", arguments: [0, 1])
    func theLargestImage(less: Int) throws {
        let image = try ExampleImage.make()
        let slots = slots(running(), image)
        let largest = CBORValue(image.bytes.count - less)
        let played = PlayedDevice(.push([SMPImage(image)], UpdateOptions())) { frame, _ in
            guard frame.group == 1, frame.command == 6 else { return slots.answer(frame) }
            return .fields(["images": .array([.map(["slots": .array([]), "max_image_size": largest])])])
        }
        #expect(less == 0 ? played.report?.outcome == .confirmed : played.error == .imageTooLarge)
    }

    @Test("another image with the running version is not a downgrade")
    func theSameVersion() throws {
        let image = try ExampleImage.make()
        let slots = slots(running("1.1.0"), image)
        let played = PlayedDevice(.push([SMPImage(image)], UpdateOptions(refusesDowngrade: true))) { frame, _ in
            slots.answer(frame)
        }
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
    }

    @Test("an image without the digest type that the device lists is refused before the upload")
    func anotherKindOfDigest() throws {
        let image = try ExampleImage.make()
        let slots = slots(running(digest: 64), image)
        let played = PlayedDevice(.push([SMPImage(image)], UpdateOptions())) { frame, _ in slots.answer(frame) }
        #expect(played.error == .wrongImageFormat && slots.uploads.isEmpty)
    }

    @Test("nothing is sent to a device that runs another image on trial")
    func aForeignTrial() throws {
        let image = try ExampleImage.make()
        let slots = slots(running(confirmed: false), image)
        let played = PlayedDevice(.push([SMPImage(image)], UpdateOptions())) { frame, _ in slots.answer(frame) }
        #expect(played.error == .inTrial && slots.uploads.isEmpty)
    }
}
