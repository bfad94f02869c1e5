import OTAFirmware
import OTASMP
import OTASigning
import OTAUpdate
import Testing

/// Tests sessions with a scripted device. OTAEngineTests has whole updates of virtual devices.
@Suite("SMP sessions") struct SMPSessionTests {
    private let old = PlayedSlots.Image(digest: [UInt8](repeating: 1, count: 32), version: "1.0.0")

    private func slots(_ image: VerifiedImage) -> PlayedSlots {
        PlayedSlots(running: [0: old], known: [image.fileDigest.bytes: image.listed()])
    }

    private func push(_ image: VerifiedImage, _ ending: UpdateOptions.Ending = .confirm) -> UpdateTask<[SMPImage]> {
        .push([SMPImage(image)], UpdateOptions(ending: ending))
    }

    // The main image is confirmed without a digest, the second image by its digest.
    @Test("a push of two images uploads both, restarts once and confirms each")
    func updatesTwoProcessors() throws {
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

    @Test("an upload-only push of two images ends done if one of them runs and the other is marked for boot")
    func uploadsOnlyWithAnImageThatIsMarked() throws {
        let (main, radio) = (try ExampleImage.make(), try ExampleImage.make((2, 0, 0, 9), bytes: 2000))
        var marked = radio.listed()
        (marked.pending, marked.confirmed) = (true, false)
        let slots = PlayedSlots(
            running: [
                0: main.listed(), 1: PlayedSlots.Image(digest: [UInt8](repeating: 2, count: 32), version: "1.9.0"),
            ],
            others: [1: marked], known: [:])
        let task = UpdateTask.push([SMPImage(main), SMPImage(radio, number: 1)], UpdateOptions(ending: .uploadOnly))
        let played = PlayedDevice(task) { frame, _ in slots.answer(frame) }
        #expect(played.report?.outcome == .done, "\(String(describing: played.outcome))")
        #expect(slots.uploads.isEmpty && slots.resets == 0)
    }

    // A device would accept such an image, but its list would not have it.
    @Test("an image without a SHA-256 is refused unless the device lists SHA-512 digests")
    func refusesAnImageThatWouldNotBeListed() throws {
        let image = try ExampleImage.sha512()
        let played = PlayedDevice(push(image)) { [slots = slots(image)] frame, _ in slots.answer(frame) }
        #expect(played.error == .wrongImageFormat && !played.frames.contains { $0.isUpload })
        // A device that lists SHA-512 digests accepts the image.
        let modern = PlayedSlots(
            running: [0: PlayedSlots.Image(digest: [UInt8](repeating: 1, count: 64), version: "1.0.0")],
            known: [image.fileDigest.bytes: image.listed(0x12)])
        let taken = PlayedDevice(push(image)) { frame, _ in modern.answer(frame) }
        #expect(taken.report?.outcome == .confirmed)
    }

    @Test("a server that alternates between the offsets 100 and 200 receives at most 64 windows")
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

    @Test("a server that accepts one byte of each packet receives at most the bytes of the budget")
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

    @Test("a push ends with link-lost if the device lists one of two images as missing, each in turn")
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

    @Test("an upload that the device holds complete but damaged is erased and sent from 0 once")
    func sendsAgainWhatIsHeldAndNotListed() throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        let size = image.bytes.count
        var erases = 0
        let played = PlayedDevice(push(image)) { frame, _ in
            if frame.group == 1, frame.command == 5 { erases += 1 }
            // The device continues the damaged upload of an earlier session until the erase.
            if frame.isUpload, erases == 0 { return .fields(["off": CBORValue(size)]) }
            return frame.group == 1 && frame.command == 5 ? .fields([:]) : slots.answer(frame)
        }
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
        #expect(erases == 1 && slots.uploads == [0])
    }

    @Test(
        "a push ends if the device lists the image neither after a resumed upload nor after an upload from 0",
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
        "an erase before a second upload names the slot that does not run, but omits slot 1 of image 0",
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

    @Test("a push fails with wrong-image-format if the device does not list the uploaded image")
    func saysThatTheImageIsNotListed() throws {
        let image = try ExampleImage.make()
        let slots = PlayedSlots(running: [0: old], known: [:])
        let played = PlayedDevice(push(image)) { frame, _ in slots.answer(frame) }
        #expect(played.error == .wrongImageFormat && slots.uploads == [0] && slots.resets == 0)
    }

    // Each answer comes with two copies that have the previous sequence.
    @Test("answers with another sequence are ignored")
    func dropsAnswersOfAnotherSequence() throws {
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

    @Test("a push succeeds if every third answer gets lost")
    func asksAgain() throws {
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

    // One buffer is for the answer. The first request is sent alone, because the number of buffers is unknown.
    @Test(
        "the number of parallel requests is limited by the device's buffers",
        arguments: [(1, 1), (2, 1), (3, 2), (4, 3), (9, 3)])
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

    // The argument is the number of the lost request, in the order of the requests before the upload.
    @Test("a request whose answer gets lost is retried after a second", arguments: 1...7)
    func asksALostQuestionAgainSoon(lost: Int) throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        var count = 0
        let played = PlayedDevice(push(image), valueLength: 244) { frame, _ in
            count += 1
            return count == lost ? .silence : slots.answer(frame)
        }
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
        #expect(!(played.frames.dropFirst(lost - 1).first?.isUpload ?? true), "the lost packet must be a request")
        // The restart also takes a part of this time.
        #expect(played.now < .seconds(4))
        #expect(played.report?.transfer?.disconnects == 0)
    }

    /// The device reports buffers of 512 bytes, or none; otaflash then assumes 384 bytes.
    @Test(
        "on a link whose framing needs 4 bytes, no packet is longer than the device's buffer without these bytes",
        arguments: [true, false])
    func leavesRoomForTheFraming(isReported: Bool) throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        let limit = (isReported ? 512 : 384) - 4
        let played = PlayedDevice(push(image), framingOverhead: 4) { frame, _ in
            // The device drops a packet that does not fit in its buffer.
            guard frame.bytes.count <= limit else { return .silence }
            if frame.group == 0, frame.command == 6, !isReported { return .fields(["rc": CBORValue(8)]) }
            if isReported, frame.group == 0, frame.command == 6 {
                return .fields(["buf_size": CBORValue(512), "buf_count": CBORValue(4)])
            }
            return self.answer(frame, slots)
        }
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
        #expect(played.report?.transfer?.chunkSize == limit)
        #expect(played.frames.map { $0.bytes.count }.max() == limit)
    }

    @Test("a device that refuses the image list as unsupported is named as firmware without the image group")
    func hasNoImageGroup() {
        let played = PlayedDevice(.status) { frame, _ in
            frame.group == 1 ? .fields(["rc": CBORValue(8)]) : .fields(["output": .text("board")])
        }
        guard case .failure(let error) = played.outcome else { return #expect(Bool(false), "no failure") }
        #expect(error.code == .unsupportedDevice && error.context.contains("CONFIG_MCUMGR_GRP_IMG"))
    }

    @Test("a request without an answer is sent four times within 15 s")
    func asksAQuestionFourTimes() {
        let played = PlayedDevice(.status) { _, links in links > 1 ? .loss : .silence }
        #expect(played.frames.count == 7 && played.error == .linkLost)
        #expect(Set(played.frames.prefix(4).map(\.sequence)).count == 1)
        #expect(played.now > .seconds(15) && played.now < .seconds(20))
    }

    /// A device can drop a write without response if the link has no bond, and report the error only for a write with response.
    @Test("if a device sends nothing, the last attempt is a write with response, and a demand for pairing ends it")
    func writesWithResponseToASilentDevice() {
        let played = PlayedDevice(.status, refusal: LinkError(.notPermitted, "not paired")) { _, _ in .silence }
        #expect(played.error == .notPermitted && played.written == [3] && played.links == 1)
        #expect(played.now < .seconds(8))
    }

    @Test("a device that does not support a write with response is waited for")
    func ignoresARefusedWriteWithResponse() {
        let played = PlayedDevice(.status, refusal: LinkError(.refused, "write not permitted")) { _, _ in .silence }
        #expect(played.error == .noAnswer && played.links == 4)
    }

    @Test("a device that answers only a write with response is used")
    func usesTheAnswerToAWriteWithResponse() throws {
        let slots = slots(try ExampleImage.make())
        var count = 0
        let played = PlayedDevice(.status) { frame, _ in
            count += 1
            return count < 4 ? .silence : slots.answer(frame)
        }
        #expect(played.report?.outcome == .done && played.written == [3] && played.links == 1)
    }

    @Test("a device that has sent a packet on the link gets no write with response")
    func writesWithoutResponseAfterAnAnswer() throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        let played = PlayedDevice(push(image)) { frame, _ in frame.isMark ? .silence : slots.answer(frame) }
        #expect(played.written.isEmpty && played.frames.contains { $0.isMark })
    }

    @Test("a late answer to an earlier attempt is accepted")
    func takesALateAnswer() throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        var pending: [[UInt8]] = []
        let played = PlayedDevice(.status) { frame, _ in
            guard case .fields(let fields) = slots.answer(frame) else { return .silence }
            // Each answer arrives with the next packet.
            defer { pending = [frame.answer(fields)] }
            return .values(pending)
        }
        #expect(played.report?.outcome == .done, "\(String(describing: played.outcome))")
        #expect(played.links == 1)
    }

    /// Answers an echo with its text, and all other requests from the slots.
    private func answer(_ frame: SMPFrame, _ slots: PlayedSlots) -> PlayedDevice.Reply {
        if let text = frame.echo { return .fields(["r": .text(text)]) }
        return slots.answer(frame)
    }

    @Test("the echo that checks reassembly is sent when no other request is pending")
    func asksForReassemblyAlone() throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        var marks = 0
        let played = PlayedDevice(push(image), valueLength: 244) { frame, _ in
            marks += frame.isMark ? 1 : 0
            // The answer to the last request before the echo gets lost.
            return frame.isMark && marks == 1 ? .silence : self.answer(frame, slots)
        }
        #expect(played.report?.transfer?.chunkSize == 512)
        let echo = try #require(played.frames.firstIndex { $0.echo != nil })
        #expect(played.frames.count { $0.echo != nil } == 1)
        #expect(played.frames[..<echo].count { $0.isMark } == 2, "the lost request is retried before the echo")
    }

    @Test("a device that loses one echo still counts as one that reassembles packets")
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

    @Test("a device that loses two echoes receives each packet in one value")
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
        "a mark too long for a link waits for the next link if the device does not reassemble packets"
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
        "a mark too long for a link waits for the next link if reassembly was not checked"
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
        "a device without parameters is probed for the number of packets it accepts at once, from two up",
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

    // The device has fewer buffers than it reports and drops requests while it works.
    @Test("requests are sent one by one after several parallel requests got lost")
    func asksOneByOneWhereSeveralGetLost() throws {
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

    // Zephyr's server discards the state of a finished upload and answers a repeated chunk with offset 0. The image list shows
    // that the upload is complete.
    @Test(
        "an image is not sent again if the answers to its last chunks get lost and the device lists it",
        arguments: [1, 2])
    func doesNotSendAgainWhereTheLastAnswersAreLost(lostAnswers: Int) throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        var lostOffsets: Set<Int> = []
        let played = PlayedDevice(push(image), valueLength: 244) { frame, _ in
            let reply = slots.answer(frame)
            guard frame.isUpload, let offset = frame.fields["off"]?.integer, let data = frame.fields["data"]?.bytes,
                offset + lostAnswers * data.count >= image.bytes.count, lostOffsets.count < lostAnswers
            else { return reply }
            lostOffsets.insert(offset)
            return .silence
        }
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
        #expect(lostOffsets.count == lostAnswers && slots.uploads == [0])
        #expect((played.report?.transfer?.resentBytes ?? .max) < lostAnswers * 244)
    }

    /// Returns the lengths of the packets with image data, without the first packet of an upload.
    private func lengths(_ played: PlayedDevice) -> [Int] {
        played.frames.filter { $0.isUpload && $0.fields["len"] == nil }.map(\.bytes.count)
    }

    // The reported buffer is longer than the real one. Over values of 244 bytes, a packet of 512 bytes has three values.
    @Test(
        "an upload continues with shorter packets if the device drops the long ones",
        arguments: [
            (4096, true, 300, 256), (4096, true, 256, 256), (4096, true, 255, 128), (244, true, 300, 256),
            (4096, true, 512, 512), (4096, true, 511, 256), (4096, false, 247, 247), (4096, false, 246, 128),
            (244, false, 200, 128),
        ])
    func shortensThePackets(valueLength: Int, reassembles: Bool, real: Int, used: Int) throws {
        let image = try ExampleImage.make(bytes: 20_000)
        let slots = slots(image)
        let played = PlayedDevice(push(image), valueLength: valueLength) { frame, _ in
            if frame.isUpload, frame.bytes.count > real { return .silence }
            return reassembles ? self.answer(frame, slots) : slots.answer(frame)
        }
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
        #expect(played.report?.transfer?.chunkSize == used)
        #expect(
            lengths(played).suffix(50).dropLast(4).allSatisfy { $0 <= used && $0 > used - 3 },
            "\(lengths(played).suffix(50))")
        let notes = played.reports.filter {
            if case .note(let text) = $0 { text.contains("got no answer") } else { false }
        }
        #expect(notes.count == (used == 512 ? 0 : real == 255 || real == 246 ? 2 : 1))
        #expect(played.now < .seconds(120))
    }

    @Test("two long packets without an answer keep the packet length, and three reduce it", arguments: [2, 3])
    func shortensAtTheThird(lost: Int) throws {
        let image = try ExampleImage.make(bytes: 20_000)
        let slots = slots(image)
        var (rounds, wasLong) = (0, false)
        let played = PlayedDevice(push(image)) { frame, _ in
            guard frame.isUpload else { return self.answer(frame, slots) }
            let isLong = frame.bytes.count > SMPPacketLimit.shortest
            // Two long packets are in flight before the first timeout.
            rounds += isLong && !wasLong ? 1 : 0
            wasLong = isLong
            return isLong && rounds <= lost ? .silence : slots.answer(frame)
        }
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
        #expect(played.report?.transfer?.chunkSize == (lost == 2 ? 512 : 256))
    }

    @Test("a device that is away for a minute during an upload keeps its packet length")
    func keepsTheLengthOfADeviceThatIsAway() throws {
        let image = try ExampleImage.make(bytes: 20_000)
        for start in [1, 5] {
            let slots = slots(image)
            var (uploads, silent) = (0, 0)
            let played = PlayedDevice(push(image)) { frame, _ in
                uploads += frame.isUpload ? 1 : 0
                guard uploads > start, silent < 12 else { return self.answer(frame, slots) }
                silent += 1
                return .silence
            }
            #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
            #expect(silent == 12 && played.report?.transfer?.chunkSize == 512)
        }
    }

    // The size or the number cannot be true. Neither ends the session, and the usable one of the two is used.
    @Test(
        "unusable buffers count as not reported",
        arguments: [(2048, 0, 2048), (0, 4, 384), (60, 4, 384), (2048, -1, 2048), (97, 3, 384), (98, 3, 98)])
    func ignoresUnusableBuffers(size: Int, count: Int, used: Int) throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        let played = PlayedDevice(push(image)) { frame, _ in
            guard frame.group == 0, frame.command == 6 else { return self.answer(frame, slots) }
            return .fields(["buf_size": CBORValue(size), "buf_count": CBORValue(count)])
        }
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
        #expect(played.report?.transfer?.chunkSize == used && played.links == 2)
        let notes = played.reports.filter {
            if case .note(let text) = $0 { text.contains("no usable value") } else { false }
        }
        #expect(notes.count == (used == 98 ? 0 : 1))
    }

    @Test(
        "a session continues if the answer to an optional query cannot be used",
        arguments: [[UInt8]](
            arrayLiteral: [0x80], [0xBF], [0xA0], [0xA1, 0x62, 0x72, 0x63, 0x0A], [0xA1, 0x62, 0x72, 0x63, 0x02]))
    func ignoresUnusableAnswers(body: [UInt8]) throws {
        let image = try ExampleImage.make()
        for optional in [6, 7, 8] as [UInt8] {
            for group in [0, 1] as [UInt16] where group == 0 || optional == 6 {
                let slots = slots(image)
                let played = PlayedDevice(push(image)) { frame, _ in
                    guard frame.group == group, frame.command == optional else { return self.answer(frame, slots) }
                    let answer = SMPFrame(
                        version: frame.version, operation: .readAnswer, group: frame.group, sequence: frame.sequence,
                        command: frame.command, body: body)
                    return .values([answer.bytes])
                }
                #expect(
                    played.report?.outcome == .confirmed, "\(group) \(optional): \(String(describing: played.outcome))")
                #expect(played.links == 2)
            }
        }
    }

    @Test("an optional query that the device drops after its image list ends no session")
    func ignoresASilentQuery() throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        let played = PlayedDevice(push(image)) { frame, _ in
            frame.group == 1 && frame.command == 6 || frame.group == 0 && frame.command == 8
                ? .silence : self.answer(frame, slots)
        }
        #expect(played.report?.outcome == .confirmed && played.links == 2, "\(String(describing: played.outcome))")
        // Two queries, each with two silences of 3 s.
        #expect(played.now > .seconds(12) && played.now < .seconds(20), "\(played.now)")
    }

    @Test(
        "a query that the device drops before its image list ends no push and no status", arguments: [6, 7] as [UInt8])
    func ignoresASilentFirstQuery(command: UInt8) throws {
        let image = try ExampleImage.make()
        for task in [push(image), .status] {
            let slots = slots(image)
            let played = PlayedDevice(task) { frame, _ in
                frame.group == 0 && frame.command == command ? .silence : self.answer(frame, slots)
            }
            #expect(played.report != nil, "\(String(describing: played.outcome))")
            #expect(played.now < .seconds(40), "\(played.now)")
        }
    }

    @Test("a device that answers no query ends the session with no-answer after 64 s")
    func silentDevice() throws {
        let played = PlayedDevice(push(try ExampleImage.make())) { _, _ in .silence }
        #expect(played.error == .noAnswer && played.links == 4)
        #expect(played.now > .seconds(60) && played.now < .seconds(68), "\(played.now)")
    }

    // Over Bluetooth, only a test before an upload shows whether the device reassembles packets.
    @Test("the length of the packets is reported when it is known")
    func packetLength() throws {
        let image = try ExampleImage.make()
        for (isDatagram, valueLength, status, pushed) in [
            (true, 4096, 508, 508), (false, 4096, nil, 508), (false, 244, nil, 508),
        ] as [(Bool, Int, Int?, Int?)] {
            for (task, expected) in [(.status, status), (push(image), pushed)] as [(UpdateTask<[SMPImage]>, Int?)] {
                let slots = slots(image)
                let played = PlayedDevice(task, valueLength: valueLength, framingOverhead: 4, isDatagram: isDatagram) {
                    frame, _ in self.answer(frame, slots)
                }
                #expect(played.report?.device.packetLength == expected, "\(isDatagram) \(valueLength)")
            }
        }
    }

    @Test("links with values that are too short for an upload end the push with a remedy")
    func tooShortValues() throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        let short = Dictionary(uniqueKeysWithValues: (3...9).map { ($0, 20) })
        // The device refuses the echo in two values on the first link. The second link breaks in the upload.
        let played = PlayedDevice(push(image), valueLength: 244, shorterLinks: short) { frame, link in
            frame.isUpload && link == 2 && frame.fields["off"]?.integer ?? 0 > 0 ? .loss : slots.answer(frame)
        }
        var remedy: UpdateError.Remedy?
        if case .failure(let error) = played.outcome { remedy = error.remedy }
        #expect(played.error == .linkLost && remedy == .longerValues, "\(String(describing: played.outcome))")
    }

    @Test("a smaller window stays small on the next link")
    func keepsTheWindowOverLinks() throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        var chunks = 0
        let played = PlayedDevice(push(image)) { frame, _ in
            chunks += frame.isUpload ? 1 : 0
            guard frame.isUpload else { return slots.answer(frame) }
            // The second chunk is dropped, and the link breaks at the fourth.
            return chunks == 2 ? .fields(["off": CBORValue(32)]) : chunks == 4 ? .loss : slots.answer(frame)
        }
        #expect(played.report?.outcome == .confirmed && played.report?.transfer?.gaps == 1)
        let first = played.mostChunks.filter { $0.value > 0 }.sorted { $0.key < $1.key }.map(\.value)
        #expect(first == [2, 1])
    }

    // The device lost power near the image's end. It lists the image although the last bytes are missing.
    @Test("an image that the device lists before its upload is complete is sent again")
    func marksNothingThatWasNotSentWhole() throws {
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

    // The image runs, but the device would boot another image next.
    @Test("a push of the running image fails with in-trial if another image is marked for boot")
    func tellsThatAnotherImageWaitsForItsStart() throws {
        let image = try ExampleImage.make()
        var other = old
        other.pending = true
        let slots = PlayedSlots(running: [0: image.listed()], others: [0: other], known: [:])
        let played = PlayedDevice(push(image)) { frame, _ in slots.answer(frame) }
        #expect(played.error == .inTrial, "\(String(describing: played.outcome))")
    }

    @Test("busy answers are retried, and a device that stays busy ends the session with device-busy")
    func waitsForABusyDevice() throws {
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

    @Test(
        "confirm ends with rolled-back if the trial ended before CONFIRM and the old image has the same version",
        arguments: [0, 1])
    func seesThatTheTrialEndedBeforeConfirm(number: Int) throws {
        var trial = PlayedSlots.Image(digest: [UInt8](repeating: 5, count: 32), version: "1.0.0")
        let other = trial
        trial.confirmed = false
        let before = PlayedSlots(running: [0: other, 1: other].merging([number: trial]) { $1 }, known: [:])
        let after = PlayedSlots(running: [0: other, 1: other].merging([number: old]) { $1 }, known: [:])
        var isLost = false
        let played = PlayedDevice(.confirm) { frame, _ in
            // The confirmation arrives after the rollback, and its answer gets lost.
            if frame.group == 1, frame.command == 0, frame.operation == .write {
                isLost = true
                return .loss
            }
            return isLost ? after.answer(frame) : before.answer(frame)
        }
        #expect(isLost && played.error == .rolledBack, "\(String(describing: played.outcome))")
    }

    @Test("a session uses SMP version 1 if the device refuses version 2")
    func fallsBackToTheFirstVersion() throws {
        let image = try ExampleImage.make()
        let slots = slots(image)
        let played = PlayedDevice(push(image)) { frame, _ in
            frame.version == .second
                ? .values([frame.answer(["rc": CBORValue(13)], version: .first)]) : slots.answer(frame)
        }
        #expect(played.report?.outcome == .confirmed, "\(String(describing: played.outcome))")
        #expect(played.frames.dropFirst().allSatisfy { $0.version == .first })
    }

    // The device accepts the reset but does not restart.
    @Test("a reset that has no effect is sent three times, and then the push ends with did-not-return")
    func givesUpADeviceThatDoesNotRestart() throws {
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

    // The device is busy with CONFIRM for longer than a restart may take, and the link breaks several times.
    @Test("a session reconnects if the link breaks during CONFIRM after the deadline")
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

    @Test("a push ends if the link breaks at every CONFIRM")
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

    @Test("a device that never answers ends the session with no-answer on the fourth link")
    func tellsThatADeviceDoesNotAnswer() {
        let played = PlayedDevice(.status) { _, _ in .silence }
        #expect(played.error == .noAnswer && played.links == 4)
    }

    @Test("a push ends with link-lost if four links in a row break at a packet")
    func givesUpABrokenLink() throws {
        let played = PlayedDevice(push(try ExampleImage.make())) { _, _ in .loss }
        #expect(played.error == .linkLost && played.links == 4)
    }

    @Test("a device without the SMP characteristic is refused as unsupported")
    func needsTheChannel() throws {
        var session = UpdateSession(try SMPConversation(.status), seed: 1)
        #expect(session.handle(.started, at: .zero).contains(.connect()))
        let none = LinkProperties(channels: [], maximumValueLength: 244)
        let actions = session.handle(.linkUp(none), at: .zero)
        #expect(actions.contains { if case .fail(let error) = $0 { error.code == .unsupportedDevice } else { false } })
    }

    @Test("a push ends if the device does not list a mark or the upload makes no progress")
    func endsWhereNothingComesOfIt() throws {
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
