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

    private func push(_ image: VerifiedImage, _ ending: UpdateOptions.Ending = .confirm) -> UpdateTask<[SMPImage]> {
        .push([SMPImage(image)], UpdateOptions(ending: ending))
    }

    /// One upload after the other, one restart for both; each is confirmed by its digest, the main one by none.
    @Test func updatesTwoProcessors() throws {
        let (main, radio) = (try ExampleImage.make(), try ExampleImage.make((2, 0, 0, 9), bytes: 2000))
        let slots = PlayedSlots(
            running: [0: old, 1: PlayedSlots.Image(digest: [UInt8](repeating: 2, count: 32), version: "1.9.0")],
            known: [main.fileDigest.bytes: main.listed(), radio.fileDigest.bytes: radio.listed()])
        let task = UpdateTask.push([SMPImage(main), SMPImage(radio, number: 1)], UpdateOptions())
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

    @Test("a server that asks for offset 100 and 200 in turn is sent 64 windows, and no more")
    func endsWhereTheServerAsksForTwoOffsetsInTurn() throws {
        let image = try ExampleImage.make(bytes: 60_000)
        let slots = slots(image)
        var (offset, received) = (0, 0)
        let played = PlayedDevice(push(image)) { frame, _ in
            guard frame.isUpload else { return slots.answer(frame) }
            received += frame.fields["data"]?.bytes?.count ?? 0
            offset = offset == 100 ? 200 : 100
            return .fields(["off": CBORValue(offset)])
        }
        #expect(played.error == .noProgress)
        // Each of the 64 windows has two packets of 512 bytes.
        #expect(received <= (ProgressBudget.mostRewinds + 2) * 2 * 512, "\(received)")
    }

    @Test("a device that restarts near the end and drops every second packet is updated")
    func updatesWhereARestartIsFollowedByManyRewinds() throws {
        let image = try ExampleImage.make(bytes: 60_000)
        let slots = slots(image)
        var (packets, hasRestarted) = (0, false)
        let played = PlayedDevice(push(image)) { frame, _ in
            guard frame.isUpload, let offset = frame.fields["off"]?.integer else { return slots.answer(frame) }
            packets += 1
            if hasRestarted, packets.isMultiple(of: 2) { return .fields(["off": CBORValue(offset)]) }
            guard offset > 55_000, !hasRestarted else { return slots.answer(frame) }
            hasRestarted = true
            slots.discardUpload()
            return .fields(["off": CBORValue(0)])
        }
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
        #expect(played.report?.transfer.map { $0.gaps > ProgressBudget.mostRewinds } == true)
    }

    @Test("a server that accepts one byte of each packet is sent no more than the budget has")
    func endsWhereTheServerCreeps() throws {
        let image = try ExampleImage.make(bytes: 60_000)
        let slots = slots(image)
        var (offset, received) = (0, 0)
        let played = PlayedDevice(push(image)) { frame, _ in
            guard frame.isUpload else { return slots.answer(frame) }
            received += frame.fields["data"]?.bytes?.count ?? 0
            offset += 1
            return .fields(["off": CBORValue(offset)])
        }
        #expect(played.error == .noProgress)
        #expect(received <= ProgressBudget.mostBytes(ofImage: image.bytes.count) + 1024, "\(received)")
    }

    @Test("a server that lists either of two images as missing, in turn, gains nothing by it")
    func endsWhereTwoImagesAreMissingInTurn() throws {
        let (main, radio) = (try ExampleImage.make(), try ExampleImage.make((2, 0, 0, 9), bytes: 2000))
        let other = PlayedSlots.Image(digest: [UInt8](repeating: 2, count: 32), version: "1.9.0")
        let task = UpdateTask.push([SMPImage(main), SMPImage(radio, number: 1)], UpdateOptions())
        var looks = 0
        var uploaded = 0
        let played = PlayedDevice(task) { frame, _ in
            if frame.isUpload {
                uploaded += 1
                return uploaded % 4 == 0 ? .loss : .fields(["off": CBORValue(uploaded % 4 * 32)])
            }
            let isList = frame.group == 1 && frame.command == 0 && frame.operation == .read
            looks += isList ? 1 : 0
            let held = looks.isMultiple(of: 2) ? [0: main.listed()] : [1: radio.listed()]
            return PlayedSlots(running: [0: self.old, 1: other], others: held, known: [:]).answer(frame)
        }
        #expect(played.error == .linkLost && played.links < 20, "\(String(describing: played.outcome))")
    }

    @Test("an upload that the device holds complete but damaged is erased and sent again from 0, once")
    func sendsAgainWhatIsHeldAndNotListed() throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        let size = image.bytes.count
        var erases = 0
        let played = PlayedDevice(push(image)) { frame, _ in
            if frame.group == 1, frame.command == 5 { erases += 1 }
            // It continues the damaged upload of an earlier run, until it is told to discard it.
            if frame.isUpload, erases == 0 { return .fields(["off": CBORValue(size)]) }
            return frame.group == 1 && frame.command == 5 ? .fields([:]) : slots.answer(frame)
        }
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
        #expect(erases == 1 && slots.uploads == [0])
    }

    @Test(
        "a device that lists the image neither after an upload from an earlier run nor after one from 0 is given up",
        arguments: [true, false])
    func sendsAgainOnce(erases: Bool) throws {
        let image = try ExampleImage.make()
        let slots = PlayedSlots(running: [0: old], known: [:])
        var isErased = false
        let played = PlayedDevice(push(image)) { frame, _ in
            if frame.isUpload, !isErased { return .fields(["off": CBORValue(image.bytes.count)]) }
            guard frame.group == 1, frame.command == 5 else { return slots.answer(frame) }
            isErased = erases
            return erases ? .fields([:]) : .fields(["rc": CBORValue(8)])
        }
        #expect(played.error == .wrongImageFormat && slots.uploads.count == (erases ? 1 : 0))
    }

    @Test(
        "an erase before a second upload names the slot that does not run, and none where that is slot 1 of image 0",
        arguments: [(0, 0, nil), (0, 1, 0), (1, 0, 3), (1, 1, 2)] as [(Int, Int, Int?)])
    func erasesTheOtherSlot(number: Int, runningSlot: Int, erased: Int?) throws {
        let image = try ExampleImage.make()
        let slots = PlayedSlots(running: [0: old, 1: old], known: [:], runningSlot: runningSlot)
        let task = UpdateTask.push([SMPImage(image, number: number)], UpdateOptions())
        var erases: [Int?] = []
        _ = PlayedDevice(task) { frame, _ in
            if frame.isUpload { return .fields(["off": CBORValue(image.bytes.count)]) }
            guard frame.group == 1, frame.command == 5 else { return slots.answer(frame) }
            erases.append(frame.fields["slot"]?.integer)
            return .fields([:])
        }
        #expect(erases == [erased])
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
    @Test(arguments: [(1, 1), (2, 1), (3, 2), (4, 3), (9, 3)])
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

    /// Of the questions before an image is sent, in the order in which they are asked.
    @Test("a question that gets lost is asked again after a second", arguments: 1...7)
    func asksALostQuestionAgainSoon(lost: Int) throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        var count = 0
        let played = PlayedDevice(push(image), valueLength: 244) { frame, _ in
            count += 1
            return count == lost ? .silence : slots.answer(frame)
        }
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
        #expect(!(played.frames.dropFirst(lost - 1).first?.isUpload ?? true), "the lost packet has to be a question")
        // The restart takes the rest.
        #expect(played.now < .seconds(4))
        #expect(played.report?.transfer?.disconnects == 0)
    }

    @Test("a question that stays unanswered is asked four times within 15 s")
    func asksAQuestionFourTimes() {
        let played = PlayedDevice(.status) { _, links in links > 1 ? .loss : .silence }
        #expect(played.frames.count == 7 && played.error == .linkLost)
        #expect(Set(played.frames.prefix(4).map(\.sequence)).count == 1)
        #expect(played.now > .seconds(15) && played.now < .seconds(20))
    }

    @Test("a late answer to an earlier attempt is taken")
    func takesALateAnswer() throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        var pending: [[UInt8]] = []
        let played = PlayedDevice(.status) { frame, _ in
            guard case .fields(let fields) = slots.answer(frame) else { return .silence }
            // Each answer comes when the next packet does.
            defer { pending = [frame.answer(fields)] }
            return .values(pending)
        }
        #expect(played.report?.outcome == .done, "\(String(describing: played.outcome))")
        #expect(played.links == 1)
    }

    /// Larger packets than the link's values, and the text of its echo.
    private func answer(_ frame: SMPFrame, _ slots: PlayedSlots) -> PlayedDevice.Reply {
        if let text = frame.echo { return .fields(["r": .text(text)]) }
        return slots.answer(frame)
    }

    @Test("the question whether packets are put together is asked alone")
    func asksForReassemblyAlone() throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        var marks = 0
        let played = PlayedDevice(push(image), valueLength: 244) { frame, _ in
            marks += frame.isMark ? 1 : 0
            // The last question before the echo: its answer is late.
            return frame.isMark && marks == 1 ? .silence : self.answer(frame, slots)
        }
        #expect(played.report?.transfer?.chunkSize == 512)
        let echo = try #require(played.frames.firstIndex { $0.echo != nil })
        #expect(played.frames.count { $0.echo != nil } == 1)
        #expect(played.frames[..<echo].count { $0.isMark } == 2, "asked again before the echo went out")
    }

    @Test("a device that loses one echo still counts as one that puts packets together")
    func asksForReassemblyTwice() throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        var echoes = 0
        let played = PlayedDevice(push(image), valueLength: 244) { frame, _ in
            echoes += frame.echo == nil ? 0 : 1
            return frame.echo != nil && echoes == 1 ? .silence : self.answer(frame, slots)
        }
        #expect(played.report?.outcome == .confirmed && echoes == 2)
        #expect(played.report?.transfer?.chunkSize == 512)
        #expect(played.links == 3, "a new link for the second echo, and one after the restart")
    }

    @Test("a device that loses two echoes gets each packet in one value")
    func takesTwoLostEchoesForANo() throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        let played = PlayedDevice(push(image), valueLength: 244) { frame, _ in
            frame.echo == nil ? slots.answer(frame) : .silence
        }
        #expect(played.report?.outcome == .confirmed)
        #expect(played.frames.count { $0.echo != nil } == 2)
        #expect(played.report?.transfer?.chunkSize == 244)
    }

    @Test(
        "a mark that does not fit a link's values goes out over the next link, if the device needs each packet in one value"
    )
    func marksOverALinkThatIsLongEnough() throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        var isLost = false
        let played = PlayedDevice(push(image), valueLength: 244, shorterLinks: [3: 20]) { frame, link in
            if frame.echo != nil { return .fields(["rc": CBORValue(8)]) }
            if frame.isMark, frame.fields["hash"] != nil, !isLost {
                isLost = true
                return .loss
            }
            #expect(link != 3 || !frame.isMark)
            return slots.answer(frame)
        }
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
        #expect(played.links > 3)
    }

    @Test(
        "a mark that an earlier link could carry is not sent in pieces to a device that was not asked whether it reassembles packets"
    )
    func marksOverALinkThatIsLongEnoughWithoutParameters() throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        var isLost = false
        let played = PlayedDevice(push(image), valueLength: 244, shorterLinks: [2: 20]) { frame, link in
            if frame.echo != nil || frame.group == 0 && frame.command == 6 { return .fields(["rc": CBORValue(8)]) }
            if frame.isMark, frame.fields["hash"] != nil, !isLost {
                isLost = true
                return .loss
            }
            #expect(link != 2 || !frame.isMark)
            return slots.answer(frame)
        }
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
        #expect(played.links > 2)
    }

    @Test(
        "a device without parameters is asked for the packets that it takes at once, from two up",
        arguments: [(1, 2), (2, 2 + 3), (3, 2 + 3 + 4), (9, 2 + 3 + 4 + 5 + 6)])
    func asksForRoomFromSmallToLarge(room: Int, echoes: Int) throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        var (burst, seen) = (2, 0)
        let played = PlayedDevice(push(image), valueLength: 244) { frame, _ in
            if frame.group == 0, frame.command == 6 { return .fields(["rc": CBORValue(8)]) }
            guard frame.echo != nil else { return slots.answer(frame) }
            seen += 1
            let isTaken = seen <= room
            if seen == burst { (burst, seen) = (burst + 1, 0) }
            return isTaken ? self.answer(frame, slots) : .silence
        }
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
        #expect(played.frames.count { $0.echo != nil } == echoes)
        #expect(played.links == 2 && played.now < .seconds(3))
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

    @Test("a window that shrank stays small over the next link")
    func keepsTheWindowOverLinks() throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        var chunks = 0
        let played = PlayedDevice(push(image)) { frame, _ in
            chunks += frame.isUpload ? 1 : 0
            guard frame.isUpload else { return slots.answer(frame) }
            // The second chunk is dropped, and with the fourth one the link is lost.
            return chunks == 2 ? .fields(["off": CBORValue(32)]) : chunks == 4 ? .loss : slots.answer(frame)
        }
        #expect(played.report?.outcome == .confirmed && played.report?.transfer?.gaps == 1)
        let first = played.mostChunks.filter { $0.value > 0 }.sorted { $0.key < $1.key }.map(\.value)
        #expect(first == [2, 1])
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
    @Test(
        "confirm does not take an image of the same version, to which the device rolled back, for the confirmed one",
        arguments: [0, 1])
    func seesThatTheTrialEndedBeforeConfirm(number: Int) throws {
        var trial = PlayedSlots.Image(digest: [UInt8](repeating: 5, count: 32), version: "1.0.0")
        let other = trial
        trial.confirmed = false
        let before = PlayedSlots(running: [0: other, 1: other].merging([number: trial]) { $1 }, known: [:])
        let after = PlayedSlots(running: [0: other, 1: other].merging([number: old]) { $1 }, known: [:])
        var isLost = false
        let played = PlayedDevice(.confirm) { frame, _ in
            // The mark arrives too late, and its answer gets lost.
            if frame.group == 1, frame.command == 0, frame.operation == .write {
                isLost = true
                return .loss
            }
            return isLost ? after.answer(frame) : before.answer(frame)
        }
        #expect(isLost && played.error == .rolledBack, "\(String(describing: played.outcome))")
    }

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

    /// The device is busy with CONFIRM for longer than a restart may take, over several links.
    @Test("a link lost during CONFIRM after the deadline is looked for again")
    func looksAgainAfterALateLossDuringConfirm() throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        var confirms = 0
        let played = PlayedDevice(push(image)) { frame, _ in
            guard frame.isMark, frame.fields["confirm"] == .bool(true) else { return slots.answer(frame) }
            confirms += 1
            guard confirms <= 100 else { return slots.answer(frame) }
            return [40, 80, 100].contains(confirms) ? .loss : .fields(["rc": CBORValue(10)])
        }
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
        #expect(confirms == 101 && played.now > .seconds(180))
    }

    @Test("links that break at every CONFIRM end the push")
    func givesUpLinksThatBreakDuringConfirm() throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        let played = PlayedDevice(push(image)) { frame, _ in
            frame.isMark && frame.fields["confirm"] == .bool(true) && frame.fields["hash"] == nil
                ? .loss : slots.answer(frame)
        }
        #expect([.didNotReturn, .protocolViolation].contains(played.error), "\(String(describing: played.outcome))")
        #expect(played.now < .seconds(500))
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
        var session = UpdateSession(try SMPConversation(.status), seed: 1)
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
        #expect(stuck.error == .noProgress)
    }
}
