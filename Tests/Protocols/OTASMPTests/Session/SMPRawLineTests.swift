import OTAFirmware
import OTASMP
import OTASigning
import OTAUpdate
import Testing

/// A serial line without frames and without a CRC (``RawLine``).
@Suite("SMP over a serial line without frames") struct SMPRawLineTests {
    private let old = PlayedSlots.Image(digest: [UInt8](repeating: 1, count: 32), version: "1.0.0")

    /// Pushes an image over a line that loses bytes. Returns the session and the bytes that the device stored.
    private func play(_ image: VerifiedImage, _ line: RawLine) -> (played: PlayedDevice, stored: [UInt8]) {
        let slots = PlayedSlots(running: [0: old], known: [image.fileDigest.bytes: image.listed()])
        var stored: [UInt8] = []
        let played = PlayedDevice(.push([SMPImage(image)], UpdateOptions()), isDatagram: true, line: line) { frame, _ in
            guard frame.isUpload else { return slots.answer(frame) }
            // MCUboot refuses a chunk without an offset or without data.
            guard let offset = frame.fields["off"]?.integer, let data = frame.fields["data"]?.bytes else {
                return .fields(["rc": CBORValue(3)])
            }
            if offset == 0 { stored = [] }
            if offset == stored.count { stored += data }
            return slots.answer(frame)
        }
        return (played, stored)
    }

    @Test("a device never stores wrong bytes of a packet that lost bytes, and the upload continues", arguments: 1...60)
    func lostBytes(seed: UInt64) throws {
        let image = try ExampleImage.make(bytes: 12_000)
        let (played, stored) = play(image, RawLine(loss: 0.1, seed: seed))
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
        #expect(stored == image.bytes)
    }

    @Test("a lost chunk is sent again after the device has discarded the incomplete packet", arguments: 1...20)
    func resendsAfterTheDiscardTime(seed: UInt64) throws {
        let image = try ExampleImage.make(bytes: 12_000)
        let (played, _) = play(image, RawLine(loss: 0.05, seed: seed))
        #expect(played.report?.transfer?.disconnects == 0, "\(String(describing: played.outcome))")
    }
}
