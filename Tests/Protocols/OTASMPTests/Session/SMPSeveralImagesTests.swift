import OTAFirmware
import OTASMP
import OTASigning
import OTAUpdate
import Testing

/// Pushes of two images: image 0 is for the main processor, and image 1 for the network processor.
@Suite("Push of several images over SMP") struct SMPSeveralImagesTests {
    private let old = PlayedSlots.Image(digest: [UInt8](repeating: 1, count: 32), version: "1.0.0")
    private let oldRadio = PlayedSlots.Image(digest: [UInt8](repeating: 2, count: 32), version: "1.9.0")
    private let main: VerifiedImage
    private let radio: VerifiedImage

    init() throws {
        main = try ExampleImage.make()
        radio = try ExampleImage.make((2, 0, 0, 9), bytes: 2000)
    }

    private func task(_ options: UpdateOptions = UpdateOptions()) -> UpdateTask<[SMPImage]> {
        .push([SMPImage(main), SMPImage(radio, number: 1)], options)
    }

    private func slots(unlisted: Set<Int> = [1], others: [Int: PlayedSlots.Image] = [:]) -> PlayedSlots {
        PlayedSlots(
            running: [0: old, 1: oldRadio], others: others,
            known: [main.fileDigest.bytes: main.listed(), radio.fileDigest.bytes: radio.listed()], unlisted: unlisted,
            skipsOthersAfterMain: true)
    }

    private func play(_ slots: PlayedSlots, _ options: UpdateOptions = UpdateOptions()) -> PlayedDevice {
        PlayedDevice(task(options)) { frame, _ in slots.answer(frame) }
    }

    private func message(_ played: PlayedDevice) -> String {
        if case .failure(let error) = played.outcome { error.context } else { "" }
    }

    @Test("image 0 is marked last, so that a device that stops after image 0 installs both", arguments: [[], [1]])
    func marksTheMainImageLast(unlisted: Set<Int>) {
        let slots = slots(unlisted: unlisted)
        let played = play(slots)
        #expect(slots.marks == [1, 0])
        #expect(slots.version(0) == "1.1.0" && slots.version(1) == "2.0.0+9")
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
    }

    @Test("an image whose running image is never listed is not rolled back, and the report names it")
    func anUnlistedImage() {
        let slots = slots()
        let first = play(slots)
        #expect(first.report?.unlistedImages == [1])
        #expect(
            first.reports.contains {
                if case .note(let text) = $0 { text.contains("image 1, version 2.0.0+9") } else { false }
            })
        let second = play(slots, delivered(radio))
        #expect(second.report?.outcome == .alreadyRunning && second.report?.unlistedImages == [1])
        #expect(slots.uploads == [0, 1] && slots.resets == 1)
        let again = play(slots, delivered(radio, resume: .never))
        #expect(again.report?.outcome == .confirmed && slots.uploads == [0, 1, 1] && slots.resets == 2)
    }

    /// The options of a push after an earlier push has installed `image` as image 1.
    private func delivered(_ image: VerifiedImage, resume: UpdateOptions.Resume = .automatic) -> UpdateOptions {
        var options = UpdateOptions(resume: resume)
        options.deliveredImages = [1: image.fileDigest.bytes]
        return options
    }

    // The network processor of this device was never updated, and another tool has installed image 0.
    @Test("an image that is never listed is sent if nothing proves that an earlier push has installed it")
    func anUnprovenImage() throws {
        for options in [UpdateOptions(), delivered(main)] {
            let slots = PlayedSlots(
                running: [0: main.listed(), 1: oldRadio], known: [radio.fileDigest.bytes: radio.listed()],
                unlisted: [1])
            let played = play(slots, options)
            #expect(played.report?.outcome == .confirmed && played.report?.unlistedImages == [1])
            #expect(slots.uploads == [1] && slots.marks == [1] && slots.resets == 1)
            #expect(slots.version(1) == "2.0.0+9" && slots.version(0) == "1.1.0")
        }
    }

    @Test("an image that is never listed is sent after the confirmation of the trial of image 0")
    func anUnprovenImageDuringATrial() throws {
        var onTrial = main.listed()
        onTrial.confirmed = false
        let slots = PlayedSlots(
            running: [0: onTrial, 1: oldRadio], known: [radio.fileDigest.bytes: radio.listed()], unlisted: [1])
        let left = play(slots, UpdateOptions(ending: .trial))
        #expect(left.report?.outcome == .onTrial(seconds: 0) && left.report?.unlistedImages == [1])
        #expect(slots.uploads.isEmpty)
        let played = PlayedDevice(task()) { frame, _ in
            // A real device refuses an upload during a trial.
            if frame.group == 1, frame.command == 1, !slots.isConfirmed(0) {
                return .fields(["err": .map(["group": CBORValue(1), "rc": CBORValue(9)])])
            }
            return slots.answer(frame)
        }
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
        #expect(slots.uploads == [1] && slots.version(1) == "2.0.0+9" && slots.isConfirmed(0))
    }

    @Test("a dry run reports the bytes of an image that would be sent again")
    func anUnprovenImageInADryRun() throws {
        let slots = PlayedSlots(running: [0: main.listed(), 1: oldRadio], known: [:], unlisted: [1])
        let played = play(slots, UpdateOptions(isDryRun: true))
        #expect(played.report?.outcome == .wouldUpdate(UpdatePlan(resumeFrom: nil, bytes: radio.bytes.count)))
        #expect(slots.uploads.isEmpty)
    }

    @Test("an image that is not listed is sent, as long as image 0 of the push does not run")
    func anUnlistedImageOfANewPush() throws {
        let slots = slots()
        let single = UpdateTask.push([SMPImage(radio, number: 1)], UpdateOptions())
        let played = PlayedDevice(single) { frame, _ in slots.answer(frame) }
        #expect(played.report?.outcome == .confirmed && played.report?.unlistedImages == [1])
        #expect(slots.uploads == [1] && slots.version(1) == "2.0.0+9")
    }

    @Test("if another push left image 1 in its slot, the push marks it although image 0 runs")
    func aSkippedImage() {
        let slots = PlayedSlots(
            running: [0: main.listed(), 1: oldRadio], others: [1: radio.listed()], known: [:], unlisted: [1])
        let played = play(slots)
        #expect(played.report?.outcome == .confirmed && slots.uploads.isEmpty && slots.marks == [1])
        #expect(slots.version(1) == "2.0.0+9")
    }

    // The bootloader refuses one of the images.
    @Test("rolled-back names the image that does not run", arguments: [0, 1])
    func namesTheRefusedImage(refused: Int) {
        let slots = slots(unlisted: [])
        let played = PlayedDevice(task()) { frame, _ in
            if frame.group == 0, frame.command == 5 { slots.refuse(refused) }
            return slots.answer(frame)
        }
        #expect(played.error == .rolledBack)
        let versions = [("1.0.0", "1.1.0"), ("1.9.0", "2.0.0+9")][refused]
        let expected = "image \(refused): the device runs version \(versions.0), not \(versions.1)"
        #expect(message(played).hasPrefix(expected), "\(message(played))")
    }

    @Test("rolled-back names the digests if the device runs another image of the same version")
    func namesTheDigests() throws {
        let other = PlayedSlots.Image(digest: [UInt8](repeating: 1, count: 32), version: "1.1.0")
        let slots = PlayedSlots(running: [0: other], known: [main.fileDigest.bytes: main.listed()])
        let played = PlayedDevice(.push([SMPImage(main)], UpdateOptions())) { frame, _ in
            if frame.group == 0, frame.command == 5 { slots.refuse(0) }
            return slots.answer(frame)
        }
        let digest = Hex.encode(Array(main.listed().digest.prefix(8)))
        #expect(
            message(played).hasPrefix(
                "the device runs another image of version 1.1.0, with the digest 0101010101010101…, not \(digest)…"),
            "\(message(played))")
    }
}
