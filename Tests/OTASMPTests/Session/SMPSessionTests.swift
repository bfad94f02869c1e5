import OTAFirmware
import OTASMP
import OTASigning
import OTAUpdate
import Testing

/// What a session does with a device that is played by hand; whole updates against a virtual one are in OTAEngineTests.
@Suite struct SMPSessionTests {
    private let old = PlayedSlots.Image(digest: [UInt8](repeating: 1, count: 32), version: "1.0.0")

    private func slots(_ image: VerifiedImage) -> PlayedSlots {
        PlayedSlots(running: [0: old], known: [image.fileDigest.bytes: image.listed()])
    }

    private func push(_ image: VerifiedImage, _ ending: SMPPushOptions.Ending = .confirm) -> SMPTask {
        .push([SMPImage(image)], SMPPushOptions(ending: ending))
    }

    /// One upload after the other, one restart for both; each is confirmed by its digest, the main one by none.
    @Test func updatesTwoProcessors() throws {
        let (main, radio) = (try ExampleImage.make(), try ExampleImage.make((2, 0, 0, 9), bytes: 2000))
        let slots = PlayedSlots(
            running: [0: old, 1: PlayedSlots.Image(digest: [UInt8](repeating: 2, count: 32), version: "1.9.0")],
            known: [main.fileDigest.bytes: main.listed(), radio.fileDigest.bytes: radio.listed()])
        let task = SMPTask.push([SMPImage(main), SMPImage(radio, number: 1)], SMPPushOptions())
        let played = PlayedDevice(task) { frame, _ in slots.answer(frame) }
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
        #expect(slots.uploads == [0, 1] && slots.resets == 1)
        #expect(slots.version(0) == "1.1.0" && slots.version(1) == "2.0.0+9")
        #expect(slots.isConfirmed(0) && slots.isConfirmed(1))
        let again = PlayedDevice(task) { frame, _ in slots.answer(frame) }
        #expect(again.report?.outcome == .alreadyRunning && !again.frames.contains { $0.isUpload })
        #expect(again.report?.transfer?.sentBytes == 0)
    }

    /// A device would take it, and never list it.
    @Test func refusesAnImageThatWouldNotBeListed() throws {
        let image = try ExampleImage.sha512()
        let played = PlayedDevice(push(image)) { [slots = slots(image)] frame, _ in slots.answer(frame) }
        #expect(played.error == .wrongImageFormat && !played.frames.contains { $0.isUpload })
        // A device whose images have such digests is another matter.
        let modern = PlayedSlots(
            running: [0: PlayedSlots.Image(digest: [UInt8](repeating: 1, count: 64), version: "1.0.0")],
            known: [image.fileDigest.bytes: image.listed(0x12)])
        let taken = PlayedDevice(push(image)) { frame, _ in modern.answer(frame) }
        #expect(taken.report?.outcome == .confirmed)
    }

    @Test func saysThatTheImageIsNotListed() throws {
        let image = try ExampleImage.make()
        let slots = PlayedSlots(running: [0: old], known: [:])
        let played = PlayedDevice(push(image)) { frame, _ in slots.answer(frame) }
        #expect(played.error == .wrongImageFormat && slots.uploads == [0] && slots.resets == 0)
    }

    /// The answer before comes once more, and one that nobody asked for.
    @Test func dropsAnswersOfAnotherSequence() throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        let played = PlayedDevice(push(image)) { frame, _ in
            guard case .fields(let fields) = slots.answer(frame) else { return .silence }
            var late = frame
            late.sequence &-= 1
            let wrong = late.answer(["rc": CBORValue(3)])
            return .values([wrong, frame.answer(fields), wrong])
        }
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
    }

    /// All that a lost answer does is that the question is put again.
    @Test func asksAgain() throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        var count = 0
        let played = PlayedDevice(push(image)) { frame, _ in
            count += 1
            let reply = slots.answer(frame)
            return count % 3 == 0 ? .silence : reply
        }
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
        #expect(slots.isConfirmed(0) && slots.version(0) == "1.1.0")
    }

    /// Before its buffers are known, and where there is but one beside that of the answer: one by one.
    @Test(arguments: [(1, 1), (2, 1), (3, 2), (4, 3), (9, 4)])
    func asksAsManyQuestionsAsThereAreBuffers(buffers: Int, atOnce: Int) throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        let played = PlayedDevice(push(image)) { frame, _ in
            guard frame.group == 0, frame.command == 6 else { return slots.answer(frame) }
            return .fields(["buf_size": CBORValue(512), "buf_count": CBORValue(buffers)])
        }
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
        #expect(played.bursts.max() == atOnce && played.bursts.first == 1 && played.frames.first?.command == 6)
    }

    /// It has fewer buffers than it says, and drops what comes while it works: it is asked one by one, and all is known in the end.
    @Test func asksOneByOneWhereSeveralGetLost() throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        var count = 0
        let played = PlayedDevice(push(image)) { frame, _ in
            count += 1
            return 2...3 ~= count ? .silence : slots.answer(frame)
        }
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
        #expect(played.bursts.filter { $0 > 1 } == [2])
        #expect(played.now < .seconds(10))
    }

    /// Zephyr's server has forgotten a finished upload, and wants the repeated chunk from the image's beginning: what it lists says
    /// that nothing is missing.
    @Test func sendsNothingAgainWhereTheLastAnswerIsLost() throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        var isLost = false
        let played = PlayedDevice(push(image), valueLength: 244) { frame, _ in
            let reply = slots.answer(frame)
            guard frame.isUpload, slots.others[0] != nil, !isLost else { return reply }
            isLost = true
            return .silence
        }
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
        #expect(isLost && slots.uploads == [0])
        #expect((played.report?.transfer?.resentBytes ?? .max) < 244)
    }

    /// The device lost its power near the image's end, and what it lists lacks its last bytes.
    @Test func marksNothingThatWasNotSentWhole() throws {
        let image = try ExampleImage.make()
        let first = slots(image)
        let then = PlayedSlots(
            running: [0: old], others: [0: image.listed()], known: [image.fileDigest.bytes: image.listed()])
        var isCut = false
        let played = PlayedDevice(push(image)) { frame, _ in
            if isCut { return then.answer(frame) }
            isCut = (frame.fields["off"]?.integer ?? 0) > 500
            return isCut ? .loss : first.answer(frame)
        }
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
        #expect(first.uploads == [0] && then.uploads == [0])
    }

    /// It runs, and another one waits for the next start: that would not be a success.
    @Test func tellsThatAnotherImageWaitsForItsStart() throws {
        let image = try ExampleImage.make()
        var other = old
        other.pending = true
        let slots = PlayedSlots(running: [0: image.listed()], others: [0: other], known: [:])
        let played = PlayedDevice(push(image)) { frame, _ in slots.answer(frame) }
        #expect(played.error == .inTrial, "\(String(describing: played.outcome))")
    }

    @Test func waitsForABusyDevice() throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        var count = 0
        let played = PlayedDevice(push(image)) { frame, _ in
            count += 1
            return count % 2 == 0 ? .fields(["rc": CBORValue(10)]) : slots.answer(frame)
        }
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
        let busy = PlayedDevice(.status) { _, _ in .fields(["rc": CBORValue(10)]) }
        #expect(busy.error == .deviceBusy && busy.now >= .seconds(88))
    }

    /// A device of the first version that refuses what is newer.
    @Test func fallsBackToTheFirstVersion() throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        let played = PlayedDevice(push(image)) { frame, _ in
            frame.version == .second
                ? .values([frame.answer(["rc": CBORValue(13)], version: .first)]) : slots.answer(frame)
        }
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
        #expect(played.frames.dropFirst().allSatisfy { $0.version == .first })
    }

    /// It says that it restarts, and goes on as before: it is asked three times, and no more.
    @Test func givesUpADeviceThatDoesNotRestart() throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        var resets = 0
        let played = PlayedDevice(push(image)) { frame, _ in
            guard frame.group == 0, frame.command == 5 else { return slots.answer(frame) }
            resets += 1
            return .fields([:])
        }
        #expect(played.error == .didNotReturn && resets == 3)
        #expect(played.reports.count { $0 == .phase(.restart) } == 1)
        #expect(played.now >= .seconds(180) && played.now < .seconds(200))
    }

    @Test func tellsThatADeviceDoesNotAnswer() {
        let played = PlayedDevice(.status) { _, _ in .silence }
        #expect(played.error == .noAnswer && played.links == 4)
    }

    /// A link that breaks with each packet brings nothing forward.
    @Test func givesUpABrokenLink() throws {
        let played = PlayedDevice(push(try ExampleImage.make())) { _, _ in .loss }
        #expect(played.error == .linkLost && played.links == 4)
    }

    @Test func needsTheChannel() throws {
        var session = SMPSession(.status, seed: 1)
        #expect(session.handle(.started, at: .zero).contains(.connect))
        let none = LinkProperties(channels: [], maximumValueLength: 244)
        let actions = session.handle(.linkUp(none), at: .zero)
        #expect(actions.contains { if case .fail(let error) = $0 { error.code == .unsupportedDevice } else { false } })
    }

    /// A mark that is taken and not shown, an upload that is never done: each ends.
    @Test func endsWhereNothingComesOfIt() throws {
        let image = try ExampleImage.make()
        let held = image.listed()
        let slots = PlayedSlots(running: [0: old], known: [image.fileDigest.bytes: held])
        let unmarked = PlayedDevice(push(image)) { frame, _ in
            frame.group == 1 && frame.command == 0 && frame.operation == .write ? .fields([:]) : slots.answer(frame)
        }
        #expect(unmarked.error == .protocolViolation)
        #expect(unmarked.frames.count { $0.fields["hash"]?.bytes == held.digest } <= 24)
        let stuck = PlayedDevice(push(image)) { frame, _ in
            frame.isUpload ? .fields(["off": CBORValue(7)]) : self.slots(image).answer(frame)
        }
        #expect(stuck.error == .protocolViolation)
    }
}
