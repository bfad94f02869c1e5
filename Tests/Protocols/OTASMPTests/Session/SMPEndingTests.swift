import OTAFirmware
import OTASMP
import OTASigning
import OTAUpdate
import Testing

@Suite("Restart, confirm and discard over SMP") struct SMPEndingTests {
    private func image(_ byte: UInt8, confirmed: Bool = true, pending: Bool = false) -> PlayedSlots.Image {
        PlayedSlots.Image(
            digest: [UInt8](repeating: byte, count: 32), version: "1.0.0", pending: pending, confirmed: confirmed)
    }

    @Test("confirm ends with rolled-back if another image with the same version runs afterwards")
    func confirmLooksAtTheDigest() {
        let trial = PlayedSlots(running: [0: image(1, confirmed: false)], known: [:])
        let old = PlayedSlots(running: [0: image(2)], known: [:])
        let played = PlayedDevice(.confirm) { frame, link in
            if link > 1 { return old.answer(frame) }
            return frame.group == 1 && frame.operation == .write ? .loss : trial.answer(frame)
        }
        #expect(played.error == .rolledBack, "\(String(describing: played.outcome))")
    }

    @Test("a reset is not sent again at once if the device still answers before its restart")
    func aSlowRestart() throws {
        let image = try ExampleImage.make()
        let slots = PlayedSlots(running: [0: self.image(1)], known: [image.fileDigest.bytes: image.listed()])
        var resets = 0
        var looks = 0
        let played = PlayedDevice(.push([SMPImage(image)], UpdateOptions())) { frame, _ in
            if frame.group == 0, frame.command == 5 {
                resets += 1
                return .fields([:])
            }
            if resets == 1, frame.group == 1, frame.command == 0, frame.operation == .read {
                looks += 1
                if looks == 2 {
                    _ = slots.answer(
                        SMPFrame(version: .second, operation: .write, group: 0, sequence: 0, command: 5, body: []))
                }
            }
            return slots.answer(frame)
        }
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
        #expect(resets == 1)
    }

    /// Runs a task on a device that accepts a confirmation after `busyTimes` answers with *busy*, but never lists the image as
    /// confirmed.
    private func playStubborn(
        _ task: UpdateTask<[SMPImage]>, running: PlayedSlots.Image, busyTimes: Int
    ) -> PlayedDevice {
        let slots = PlayedSlots(running: [0: running], known: [:])
        var busy = 0
        return PlayedDevice(task) { frame, _ in
            guard frame.isMark else { return slots.answer(frame) }
            busy += 1
            return busy % (busyTimes + 1) == 0 ? .fields([:]) : .fields(["rc": CBORValue(10)])
        }
    }

    @Test("a confirmation ends at its time limit even if the device answers", arguments: [5, 41], [true, false])
    func aConfirmationThatNeverShows(busyTimes: Int, isPush: Bool) throws {
        let image = try ExampleImage.make()
        var running = isPush ? image.listed() : self.image(1)
        running.confirmed = false
        let task: UpdateTask<[SMPImage]> = isPush ? .push([SMPImage(image)], UpdateOptions()) : .confirm
        let played = playStubborn(task, running: running, busyTimes: busyTimes)
        #expect(
            played.error == (busyTimes == 5 ? .didNotReturn : .deviceBusy), "\(String(describing: played.outcome))")
        #expect(played.now <= .seconds(300), "\(played.now)")
    }

    @Test("restart sends one reset and ends with its answer", arguments: [true, false])
    func restarts(isAnswered: Bool) {
        let slots = PlayedSlots(running: [0: image(1)], known: [:])
        let played = PlayedDevice(.restart) { frame, _ in
            let reply = slots.answer(frame)
            return frame.group == 0 && frame.command == 5 && !isAnswered ? .silence : reply
        }
        #expect(isAnswered ? played.report?.outcome == .done : played.error == .noAnswer)
        #expect(slots.resets == 1 && played.links == 1)
    }

    @Test("restart ends done if the link is lost before the answer and the device answers again")
    func restartsWithALostLink() {
        let slots = PlayedSlots(running: [0: image(1)], known: [:])
        let played = PlayedDevice(.restart) { frame, _ in
            let reply = slots.answer(frame)
            return frame.group == 0 && frame.command == 5 ? .loss : reply
        }
        #expect(played.report?.outcome == .done && slots.resets == 1 && played.links == 2)
    }

    @Test("only an error without a reason refers to the device's log", arguments: [1, 3, 8, 11, 256])
    func anErrorWithoutAReason(code: Int) throws {
        let image = try ExampleImage.make()
        let slots = PlayedSlots(running: [0: self.image(1)], known: [image.fileDigest.bytes: image.listed()])
        let played = PlayedDevice(.push([SMPImage(image)], UpdateOptions())) { frame, _ in
            frame.isMark && frame.fields["hash"] != nil ? .fields(["rc": CBORValue(code)]) : slots.answer(frame)
        }
        let error = #expect(throws: UpdateError.self) { try played.outcome?.get() }
        #expect((error?.remedy == .deviceLog) == [1, 256].contains(code))
        #expect((error?.code == .refusedByPolicy) == [1, 11, 256].contains(code))
    }

    @Test("discard does not erase an image that is marked for boot")
    func discardOfAMarkedImage() {
        let slots = PlayedSlots(running: [0: image(1)], others: [0: image(2, pending: true)], known: [:])
        let played = PlayedDevice(.discard(erasesImage: true)) { frame, _ in slots.answer(frame) }
        #expect(played.error == .inTrial && !played.frames.contains { $0.group == 1 && $0.command == 5 })
        let error = #expect(throws: UpdateError(.inTrial, "")) { try played.outcome?.get() }
        #expect(error?.isMarkedForBoot == true && error?.isMarkedPermanently == false)
        #expect(error?.context.contains("discard the image after it has booted") == true)
    }

    @Test("discard and push report that a marked image boots without a trial", arguments: [true, false])
    func aPermanentlyMarkedImage(isPush: Bool) throws {
        var marked = image(2, pending: true)
        marked.permanent = true
        let task: UpdateTask<[SMPImage]> =
            isPush ? .push([SMPImage(try ExampleImage.make())], UpdateOptions()) : .discard(erasesImage: true)
        let slots = PlayedSlots(running: [0: image(1)], others: [0: marked], known: [:])
        let played = PlayedDevice(task) { frame, _ in slots.answer(frame) }
        let error = #expect(throws: UpdateError(.inTrial, "")) { try played.outcome?.get() }
        #expect(error?.isMarkedForBoot == true && error?.isMarkedPermanently == true)
        #expect(error?.context.contains("is marked for the next boot, without a trial") == true)
        #expect(error?.context.contains("after it has booted") == false)
    }

    @Test("discard erases a slot without an image, and a slot with an image only if the task says so")
    func discardOfAnImage() {
        let full = PlayedSlots(running: [0: image(1)], others: [0: image(2)], known: [:])
        let refused = PlayedDevice(.discard()) { frame, _ in full.answer(frame) }
        #expect(refused.error == .slotHoldsImage && !refused.frames.contains { $0.group == 1 && $0.command == 5 })
        let empty = PlayedSlots(running: [0: image(1)], known: [:])
        let played = PlayedDevice(.discard()) { frame, _ in
            frame.group == 1 && frame.command == 5 ? .fields([:]) : empty.answer(frame)
        }
        #expect(played.report?.erased == ErasedSlot(slot: 1), "\(String(describing: played.outcome))")
    }

    @Test("discard erases the slot that does not run", arguments: [0, 1])
    func discardsTheOtherSlot(runningSlot: Int) {
        let slots = PlayedSlots(
            running: [0: image(1)], others: [0: image(2)], known: [:], runningSlot: runningSlot)
        var erases: [Int?] = []
        let played = PlayedDevice(.discard(erasesImage: true)) { frame, _ in
            guard frame.group == 1, frame.command == 5 else { return slots.answer(frame) }
            erases.append(frame.fields["slot"]?.integer)
            return .fields([:])
        }
        #expect(played.report?.outcome == .done, "\(String(describing: played.outcome))")
        #expect(erases == [runningSlot == 1 ? 0 : nil])
        let erased = played.report?.erased
        #expect(erased?.slot == 1 - runningSlot && erased?.held?.digest == image(2).digest && erased?.wasEmpty == false)
    }

    @Test("discard fails if the erase fails and the slot holds an image", arguments: [true, false])
    func anEraseThatFails(isFull: Bool) {
        let slots = PlayedSlots(running: [0: image(1)], others: isFull ? [0: image(2)] : [:], known: [:])
        let played = PlayedDevice(.discard(erasesImage: true)) { frame, _ in
            frame.group == 1 && frame.command == 5 ? .fields(["rc": CBORValue(1)]) : slots.answer(frame)
        }
        #expect((played.report?.outcome == .done) == !isFull, "\(String(describing: played.outcome))")
        if !isFull { #expect(played.report?.erased == ErasedSlot(slot: 1, wasEmpty: true)) }
    }

    @Test("discard reports the erased image also if the answer to the erase gets lost")
    func aLostAnswerToAnErase() {
        let full = PlayedSlots(running: [0: image(1)], others: [0: image(2)], known: [:])
        let empty = PlayedSlots(running: [0: image(1)], known: [:])
        let played = PlayedDevice(.discard(erasesImage: true)) { frame, link in
            guard frame.group == 1, frame.command == 5 else { return (link == 1 ? full : empty).answer(frame) }
            return link == 1 ? .loss : .fields(["rc": CBORValue(1)])
        }
        #expect(played.report?.erased?.held?.digest == image(2).digest && played.report?.erased?.wasEmpty == false)
    }
}
