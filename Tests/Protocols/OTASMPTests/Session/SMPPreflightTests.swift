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

    /// The server refuses each chunk in the last 4 KiB of the slot. The slot has this number of bytes after the image.
    @Test(
        "a flash error in the trailer of the slot shows that the image is too large",
        arguments: [(0, 12), (100, 13), ((16 << 10) - 1, 13), (16 << 10, 13), (0, 9)])
    func theTrailer(room: Int, code: Int) throws {
        let image = try ExampleImage.make(bytes: 20_000)
        let slots = slots(running(), image)
        let size = CBORValue(image.bytes.count + room)
        let played = PlayedDevice(.push([SMPImage(image)], UpdateOptions())) { frame, _ in
            if frame.group == 1, frame.command == 6 {
                let slot = CBORValue.map(["slot": CBORValue(1), "size": size])
                return .fields(["images": .array([.map(["slots": .array([slot])])])])
            }
            if frame.isUpload, frame.fields["off"]?.integer ?? 0 > 16_000 {
                return .fields(["err": .map(["group": CBORValue(1), "rc": CBORValue(code)])])
            }
            return slots.answer(frame)
        }
        let expected: UpdateError.Code = code == 9 ? .inTrial : room < 16 << 10 ? .imageTooLarge : .flashFailed
        #expect(played.error == expected, "\(String(describing: played.outcome))")
    }

    @Test(
        "a push that must not downgrade is refused if the device does not report its version, unless the user accepts it"
    )
    func anUnknownVersion() throws {
        let image = try ExampleImage.make()
        for (refuses, accepts) in [(false, false), (true, false), (true, true)] {
            let slots = slots(running("development"), image)
            let options = UpdateOptions(refusesDowngrade: refuses, acceptsUncheckedTarget: accepts)
            let played = PlayedDevice(.push([SMPImage(image)], options)) { frame, _ in slots.answer(frame) }
            #expect(
                played.error == (refuses && !accepts ? .targetUnchecked : nil), "\(String(describing: played.outcome))")
        }
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

    private func expectOnlyQueries(_ played: PlayedDevice, _ slots: PlayedSlots) {
        #expect(slots.uploads.isEmpty && slots.resets == 0)
        // A mark without a digest is a query. Command 5 erases a slot or restarts the device.
        #expect(played.frames.allSatisfy { !$0.isUpload && $0.command != 5 || $0.group == 0 && $0.operation == .read })
        #expect(
            played.frames.allSatisfy { !$0.isMark || $0.fields["hash"] == nil && $0.fields["confirm"]?.bool != true })
    }

    @Test("a dry run sends only queries, also over broken links and to a busy device", arguments: [0, 1, 2, 3])
    func dryRun(faults: Int) throws {
        let image = try ExampleImage.make()
        let slots = slots(running(), image)
        var packets = 0
        let played = PlayedDevice(.push([SMPImage(image)], UpdateOptions(resume: .never, isDryRun: true))) {
            frame, link in
            packets += 1
            if link <= faults, packets.isMultiple(of: 2) { return .loss }
            if faults == 3, packets < 12 { return .fields(["rc": CBORValue(10)]) }
            return slots.answer(frame)
        }
        let plan = UpdatePlan(resumeFrom: 0, bytes: image.bytes.count)
        #expect(played.report?.outcome == .wouldUpdate(plan), "\(String(describing: played.outcome))")
        #expect(played.report?.transfer == nil)
        expectOnlyQueries(played, slots)
    }

    @Test("a dry run reports a device that stays busy, as the push does")
    func dryRunOfABusyDevice() throws {
        let image = try ExampleImage.make()
        for isDryRun in [false, true] {
            let slots = slots(running(), image)
            let played = PlayedDevice(.push([SMPImage(image)], UpdateOptions(isDryRun: isDryRun))) { frame, _ in
                frame.group == 1 ? .fields(["rc": CBORValue(10)]) : slots.answer(frame)
            }
            #expect(played.error == .deviceBusy)
            expectOnlyQueries(played, slots)
        }
    }

    @Test("a dry run does not confirm a trial, and does not restart a device with a marked image")
    func dryRunDuringATrial() throws {
        let image = try ExampleImage.make()
        for (isConfirmed, isPending) in [(false, false), (true, true)] {
            var listed = image.listed()
            listed.confirmed = isConfirmed && !isPending
            listed.pending = isPending
            let slots =
                isPending
                ? PlayedSlots(running: [0: running()], others: [0: listed], known: [:])
                : PlayedSlots(running: [0: listed], others: [0: running()], known: [:])
            let played = PlayedDevice(.push([SMPImage(image)], UpdateOptions(isDryRun: true))) { frame, _ in
                slots.answer(frame)
            }
            #expect(
                played.report?.outcome == .wouldUpdate(UpdatePlan(bytes: 0)), "\(String(describing: played.outcome))")
            expectOnlyQueries(played, slots)
        }
    }

    @Test("a bootloader that overwrites the old image is refused by a dry run as by the push")
    func dryRunWithoutTrial() throws {
        let image = try ExampleImage.make()
        for isDryRun in [false, true] {
            let slots = slots(running(), image)
            let played = PlayedDevice(.push([SMPImage(image)], UpdateOptions(isDryRun: isDryRun))) { frame, _ in
                // The answer of MCUmgr to "mode" of the bootloader: 2 is overwrite only.
                frame.group == 0 && frame.command == 8 ? .fields(["mode": CBORValue(2)]) : slots.answer(frame)
            }
            #expect(played.error == .noTrial)
            expectOnlyQueries(played, slots)
        }
    }

    @Test(
        "nothing is sent to a device whose list does not show which image runs, except with upload-only",
        arguments: [true, false])
    func aListWithoutFlags(isUploadOnly: Bool) throws {
        let image = try ExampleImage.make()
        let slots = slots(running(), image)
        let options = UpdateOptions(ending: isUploadOnly ? .uploadOnly : .confirm)
        let played = PlayedDevice(.push([SMPImage(image)], options)) { frame, _ in
            let reply = slots.answer(frame)
            guard case .fields(var fields) = reply, let images = fields["images"]?.array else { return reply }
            let flags = ["active", "pending", "confirmed", "permanent"]
            fields["images"] = .array(images.map { .map(($0.map ?? [:]).filter { !flags.contains($0.key) }) })
            return .fields(fields)
        }
        if isUploadOnly {
            #expect(played.report?.outcome == .done && played.report?.device.state == .unknown)
            #expect(slots.uploads == [0])
        } else {
            let error = #expect(throws: UpdateError(.unsupportedDevice, "")) { try played.outcome?.get() }
            #expect(error?.remedy == .uploadOnly && slots.uploads.isEmpty && slots.marks.isEmpty)
        }
    }

    @Test("nothing is sent to a device that runs another image on trial")
    func aForeignTrial() throws {
        let image = try ExampleImage.make()
        let slots = slots(running(confirmed: false), image)
        let played = PlayedDevice(.push([SMPImage(image)], UpdateOptions())) { frame, _ in slots.answer(frame) }
        #expect(played.error == .inTrial && slots.uploads.isEmpty)
    }
}
