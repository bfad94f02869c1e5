import OTAFirmware
import OTAProfile
import OTASigning
import OTAUpdate
import Testing

@Suite("Sessions of the OTA profile") struct ProfileSessionTests {
    private typealias Device = Conversation.Device

    private func push(_ options: UpdateOptions = UpdateOptions()) throws -> Conversation {
        try Conversation(.push(try ExampleUpdate.bundle(), options))
    }
    private func data(_ sequence: String, _ bytes: some Sequence<UInt8>) -> [UInt8] {
        ExampleUpdate.bytes(sequence) + bytes
    }
    private func send(_ chunks: [UInt8]...) -> UpdateAction { .link(.send(chunks, ProfileChannel.data)) }

    /// Checks the bytes of docs/ota-profile.md, "Example", up to the image.
    private func acceptEnvelope(_ talk: inout Conversation) {
        talk.expect(
            "01 21 01 a9 00 00 00 00 00 00 00 ab 01 74 64 e2 fa 78 e9",
            answering: "81 21 00 00 10 00 00 00 00 00 00 00 00")
        talk.expect(
            send(data("00 10", ExampleUpdate.envelope)),
            .link(.write(ExampleUpdate.bytes("02 22 01 10"), ProfileChannel.control)))
        talk.notify("82 22 00 01 10 a9 00 00 00 88 e1 59 0d")
        talk.expect("03 23", answering: "83 23 00")
    }
    private func transferImage(_ talk: inout Conversation) {
        let image = ExampleUpdate.image
        talk.expect(
            "01 24 02 58 02 00 00 ff ff ff ff db 4f 2a c2 5d 14 03 69",
            answering: "81 24 00 01 20 00 00 00 00 00 00 00 00")
        talk.expect(
            send(data("01 20", image[..<242]), data("02 20", image[242..<484]), data("03 20", image[484...])),
            .link(.write(ExampleUpdate.bytes("02 25 04 20"), ProfileChannel.control)))
        talk.notify("82 25 00 04 20 58 02 00 00 3b 94 b2 df")
        talk.expect("03 26", answering: "83 26 00")
    }
    private func apply(_ talk: inout Conversation) {
        talk.expect("04 27 00", answering: "84 27 00")
        talk.expect(.disconnect)
        talk.tell(.linkDown(LinkError(.lost, "closed")))
        talk.expect()
        talk.waitForDeadline()
        talk.expect(.connect())
    }

    @Test("a push sends the envelope and the image, applies, reconnects and confirms")
    func goesTheWholeWay() throws {
        var talk = try push()
        talk.comeUp(Device())
        acceptEnvelope(&talk)
        transferImage(&talk)
        apply(&talk)
        talk.comeUp(Device(version: "1.1.0", state: 5))
        talk.expect("05 28", answering: "85 28 00")
        let report = try #require(talk.report)
        #expect(report.outcome == .confirmed)
        #expect(report.device.runningVersion == "1.1.0" && report.device.previousVersion == "1.0.0")
        #expect(report.device.state == .idle)
        let transfer = try #require(report.transfer)
        #expect(transfer.imageBytes == 600 && transfer.sentBytes == 600 && transfer.resentBytes == 0)
        #expect(transfer.chunkSize == 244 && transfer.mtu == 247 && transfer.flushes == 1)
        #expect(
            talk.reports == [
                .phase(.connect), .phase(.preflight), .phase(.envelope), .phase(.transfer),
                .transferred(offset: 600, total: 600, sent: 600), .uploaded(transfer), .phase(.verify), .phase(.apply),
                .phase(.restart), .reconnected, .phase(.confirm), .confirmed(version: "1.1.0"),
            ])
    }

    // As in the example: the second of three chunks gets lost, and the rewind overtakes the pending flush.
    @Test("a push continues from the device's offset after a rewind during a flush")
    func rewindsAsInTheExample() throws {
        let image = ExampleUpdate.image
        var talk = try push()
        talk.comeUp(Device())
        acceptEnvelope(&talk)
        talk.expect(
            "01 24 02 58 02 00 00 ff ff ff ff db 4f 2a c2 5d 14 03 69",
            answering: "81 24 00 01 20 00 00 00 00 00 00 00 00")
        talk.expect(
            send(data("01 20", image[..<242]), data("02 20", image[242..<484]), data("03 20", image[484...])),
            .link(.write(ExampleUpdate.bytes("02 25 04 20"), ProfileChannel.control)))
        talk.notify("03 00 02 30 f2 00 00 00 6a 82 aa 3b", on: ProfileChannel.progress)
        talk.expect(send(data("02 30", image[242..<484]), data("03 30", image[484...])))
        talk.notify("82 25 00 02 30 f2 00 00 00 6a 82 aa 3b")
        talk.expect("02 26 04 30", answering: "82 26 00 04 30 58 02 00 00 3b 94 b2 df")
        talk.expect("03 27", answering: "83 27 00")
        talk.expect("04 28 00")
        #expect(talk.reports.contains(.gap(offset: 242)))
    }

    @Test("the next link starts with the window that the gaps of the last link left")
    func learnsTheWindowOnce() throws {
        let image = ExampleUpdate.image
        let device = Device(window: 2)
        var talk = try push()
        talk.comeUp(device)
        acceptEnvelope(&talk)
        talk.expect(
            "01 24 02 58 02 00 00 ff ff ff ff db 4f 2a c2 5d 14 03 69",
            answering: "81 24 00 01 20 00 00 00 00 00 00 00 00")
        talk.expect(send(data("01 20", image[..<242]), data("02 20", image[242..<484])))
        talk.notify("03 00 01 30 00 00 00 00 00 00 00 00", on: ProfileChannel.progress)
        talk.expect(send(data("01 30", image[..<242])))
        talk.tell(.linkDown(LinkError(.lost, "gone")))
        talk.waitForDeadline()
        talk.expect(.connect())
        talk.comeUp(device)
        talk.expect(
            "01 25 01 a9 00 00 00 00 00 00 00 ab 01 74 64 e2 fa 78 e9",
            answering: "81 25 00 00 10 00 00 00 00 00 00 00 00")
        talk.forget()
        talk.notify("82 26 00 01 10 a9 00 00 00 88 e1 59 0d")
        talk.expect("03 27", answering: "83 27 00")
        talk.expect(
            "01 28 02 58 02 00 00 ff ff ff ff db 4f 2a c2 5d 14 03 69",
            answering: "81 28 00 01 30 00 00 00 00 00 00 00 00")
        talk.expect(send(data("01 30", image[..<242])))
    }

    @Test("a push of the image that already runs sends nothing")
    func doesNotSendWhatRunsAlready() throws {
        var talk = try push(UpdateOptions())
        talk.comeUp(Device(running: [0x53, 0xe0, 0xf6, 0xa7, 0x7c, 0xd7, 0x31, 0x85], version: "1.1.0"))
        talk.expect(.disconnect)
        #expect(talk.report?.outcome == .alreadyRunning)
    }

    @Test("a push confirms the image that an earlier push left on trial, even if the answer gets lost")
    func confirmsWhatAnEarlierRunLeftOnTrial() throws {
        var talk = try push()
        talk.comeUp(Device(version: "1.1.0", state: 5))
        talk.expect("05 21")
        talk.tell(.linkDown(LinkError(.lost, "gone")))
        talk.waitForDeadline()
        talk.expect(.connect())
        talk.comeUp(Device(version: "1.1.0"))
        talk.expect(.disconnect)
        #expect(talk.report?.outcome == .confirmed, "the trial is over and the new image runs")
    }

    @Test("a push that only confirms ends a trial, and sends no request to a device that runs another image")
    func onlyConfirms() throws {
        var talk = try push(UpdateOptions(onlyConfirms: true))
        talk.comeUp(Device(version: "1.1.0", state: 5))
        talk.expect("05 21", answering: "85 21 00")
        talk.expect(.disconnect)
        #expect(talk.report?.outcome == .confirmed)
        var rolledBack = try push(UpdateOptions(onlyConfirms: true))
        rolledBack.comeUp(Device())
        rolledBack.expect(.disconnect)
        #expect(rolledBack.error == .notInTrial)
    }

    @Test("a push with the trial ending finishes without CONFIRM")
    func leavesATrialToSomebodyElse() throws {
        var talk = try push(UpdateOptions(ending: .trial))
        talk.comeUp(Device())
        acceptEnvelope(&talk)
        transferImage(&talk)
        apply(&talk)
        talk.comeUp(Device(version: "1.1.0", state: 5))
        #expect(talk.report?.outcome == .onTrial(seconds: 60))
    }

    @Test("a push fails with rolled-back if the old image runs 5 s after APPLY")
    func reportsThatTheDeviceRolledBack() throws {
        var talk = try push()
        talk.comeUp(Device())
        acceptEnvelope(&talk)
        transferImage(&talk)
        apply(&talk)
        talk.comeUp(Device())
        talk.expect(.disconnect)
        #expect(talk.outcome == nil, "the device may not have restarted so soon after APPLY")
        talk.tell(.linkDown(LinkError(.lost, "closed")))
        talk.now += .seconds(5)
        talk.waitForDeadline()
        talk.expect(.connect())
        talk.comeUp(Device())
        #expect(talk.error == .rolledBack)
    }

    @Test("an old image with the same version is not mistaken for the new one after APPLY")
    func takesAnOldImageOfTheSameVersionForWhatItIs() throws {
        var talk = try push()
        talk.comeUp(Device(version: "1.1.0"))
        acceptEnvelope(&talk)
        transferImage(&talk)
        apply(&talk)
        talk.now += .seconds(5)
        talk.comeUp(Device(version: "1.1.0"))
        #expect(talk.error == .rolledBack)
    }

    @Test("a push starts again with the envelope if the link broke before the answer to APPLY")
    func appliesOnceMoreWhenTheAnswerNeverCame() throws {
        var talk = try push()
        talk.comeUp(Device())
        acceptEnvelope(&talk)
        transferImage(&talk)
        talk.expect("04 27 00")
        talk.tell(.linkDown(LinkError(.lost, "gone")))
        talk.now += .seconds(5)
        talk.waitForDeadline()
        talk.expect(.connect())
        talk.comeUp(Device())
        talk.expect("01 28 01 a9 00 00 00 00 00 00 00 ab 01 74 64 e2 fa 78 e9")
        #expect(talk.stages == [.asking, .sending, .marked, .sending])
    }

    @Test("a push restarts the image from 0 if the CRC of the held bytes differs")
    func startsOverWhereTheHeldBytesAreOthers() throws {
        var talk = try push()
        talk.comeUp(Device(held: [0x53, 0xe0, 0xf6, 0xa7, 0x7c, 0xd7, 0x31, 0x85, 242, 0, 0, 0]))
        acceptEnvelope(&talk)
        talk.expect(
            "01 24 02 58 02 00 00 ff ff ff ff db 4f 2a c2 5d 14 03 69",
            answering: "81 24 00 01 20 f2 00 00 00 6b 82 aa 3b")
        talk.expect("01 25 02 58 02 00 00 00 00 00 00 db 4f 2a c2 5d 14 03 69")
        #expect(talk.reports.contains(.discarded(offset: 242)))
    }

    @Test("a push resumes from the device's offset", arguments: [.automatic, .expected] as [UpdateOptions.Resume])
    func resumesFromTheDevicesOffset(resume: UpdateOptions.Resume) throws {
        var talk = try push(UpdateOptions(resume: resume))
        talk.comeUp(Device(held: [0x53, 0xe0, 0xf6, 0xa7, 0x7c, 0xd7, 0x31, 0x85, 242, 0, 0, 0]))
        acceptEnvelope(&talk)
        talk.expect(
            "01 24 02 58 02 00 00 ff ff ff ff db 4f 2a c2 5d 14 03 69",
            answering: "81 24 00 01 20 f2 00 00 00 6a 82 aa 3b")
        talk.expect(
            send(data("01 20", ExampleUpdate.image[242..<484]), data("02 20", ExampleUpdate.image[484...])),
            .link(.write(ExampleUpdate.bytes("02 25 03 20"), ProfileChannel.control)))
        #expect(talk.reports.contains(.resumed(offset: 242, total: 600)))
        #expect(!talk.reports.contains(.nothingToResume))
    }

    @Test(
        "a part of another bundle is discarded, and reported if a resume was expected",
        arguments: [.automatic, .expected] as [UpdateOptions.Resume])
    func aForeignPart(resume: UpdateOptions.Resume) throws {
        var talk = try push(UpdateOptions(resume: resume))
        talk.comeUp(Device(held: [0x53, 0xe0, 0xf6, 0xa7, 0x7c, 0xd7, 0x31, 0x86, 242, 0, 0, 0]))
        acceptEnvelope(&talk)
        #expect(talk.reports.contains(.discarded(offset: 242)))
        // The device holds nothing of this bundle, so it continues at 0.
        talk.expect(
            "01 24 02 58 02 00 00 ff ff ff ff db 4f 2a c2 5d 14 03 69",
            answering: "81 24 00 01 20 00 00 00 00 00 00 00 00")
        #expect(talk.reports.contains(.nothingToResume) == (resume == .expected))
        #expect(!talk.reports.contains { if case .resumed = $0 { true } else { false } })
    }

    @Test("a push that never resumes discards the held bytes and starts from 0")
    func discardsWhatNobodyAskedToResume() throws {
        var talk = try push(UpdateOptions(resume: .never))
        talk.comeUp(Device(held: [0x53, 0xe0, 0xf6, 0xa7, 0x7c, 0xd7, 0x31, 0x85, 242, 0, 0, 0]))
        acceptEnvelope(&talk)
        talk.expect("01 24 02 58 02 00 00 00 00 00 00 db 4f 2a c2 5d 14 03 69")
        #expect(talk.reports.contains(.discarded(offset: 242)))
    }

    @Test("a request to a busy device is retried for 90 s")
    func asksABusyDeviceAgainFor90Seconds() throws {
        var talk = try push()
        talk.comeUp(Device())
        var tag = 0x21
        while talk.outcome == nil, tag < 0x60 {
            let number = String(tag, radix: 16)
            talk.expect("01 \(number) 01 a9 00 00 00 00 00 00 00 ab 01 74 64 e2 fa 78 e9", answering: "81 \(number) 04")
            tag += 1
            if talk.outcome == nil { talk.waitForDeadline() }
        }
        #expect(talk.error == .deviceBusy)
        #expect(talk.now == .seconds(90))
    }

    /// bluetoothd's attribute table can be from earlier firmware. The handle of Version is then the handle of another attribute.
    @Test("a malformed value at the start of a link is read again over a new link, but only once in a row")
    func readsAMalformedValueAgain() throws {
        var talk = try Conversation(.status)
        for round in 1...2 {
            talk.comeUp(Device(version: "not a version"))
            guard round == 1 else { break }
            #expect(talk.error == nil)
            talk.expect(.disconnect)
            talk.tell(.linkDown(LinkError(.lost, "closed")))
            talk.waitForDeadline()
            talk.expect(.connect())
        }
        #expect(talk.error == .protocolViolation)
        talk = try Conversation(.status)
        talk.comeUp(Device(version: "not a version"))
        talk.forget()
        talk.tell(.linkDown(LinkError(.lost, "closed")))
        talk.waitForDeadline()
        talk.expect(.connect())
        talk.comeUp(Device())
        #expect(talk.report?.outcome == .done)
    }

    @Test("a device that never reports its status fails with no-answer")
    func neverDescribed() throws {
        var talk = try push()
        for _ in 0..<4 {
            let channels: Set = [
                ProfileChannel.info, ProfileChannel.control, ProfileChannel.data, ProfileChannel.progress,
                ProfileChannel.version,
            ]
            talk.tell(.linkUp(LinkProperties(channels: channels, maximumValueLength: 244)))
            talk.waitForDeadline()
            talk.tell(.linkDown(LinkError(.lost, "closed")))
            if talk.outcome == nil { talk.waitForDeadline() }
        }
        guard case .failure(let error)? = talk.outcome else {
            Issue.record("the session does not fail")
            return
        }
        #expect(error.code == .noAnswer && error.isSilent)
    }

    @Test("a push ends with link-lost after three reconnects without progress")
    func triesThreeTimesWithoutProgress() throws {
        var talk = try push()
        talk.comeUp(Device())
        for _ in 0..<3 {
            talk.tell(.linkDown(LinkError(.lost, "gone")))
            talk.waitForDeadline()
            talk.comeUpAgain(Device())
        }
        talk.tell(.linkDown(LinkError(.lost, "gone")))
        #expect(talk.error == .linkLost)
    }

    @Test("a session disconnects if a request has no answer for 30 s")
    func breaksALinkWithoutAnswers() throws {
        var talk = try push()
        talk.comeUp(Device())
        talk.expect("01 21 01 a9 00 00 00 00 00 00 00 ab 01 74 64 e2 fa 78 e9")
        talk.waitForDeadline()
        #expect(talk.now == .seconds(30))
        talk.expect(.disconnect)
    }

    @Test("events of a link are ignored after the session has disconnected it")
    func doesNotListenToALinkThatItGaveUp() throws {
        var talk = try push()
        talk.comeUp(Device())
        acceptEnvelope(&talk)
        talk.expect("01 24 02 58 02 00 00 ff ff ff ff db 4f 2a c2 5d 14 03 69")
        talk.waitForDeadline()
        talk.expect(.disconnect)
        talk.notify("81 24 00 01 20 00 00 00 00 00 00 00 00")
        talk.tell(.link(.refused(LinkError(.refused, "no"), ProfileChannel.control)))
        talk.notify("03 00 01 20 00 00 00 00 00 00 00 00", on: ProfileChannel.progress)
        talk.expect()
        talk.tell(.linkDown(LinkError(.lost, "closed")))
        talk.notify("81 24 00 01 20 00 00 00 00 00 00 00 00")
        talk.tell(.link(.refused(LinkError(.refused, "no"), ProfileChannel.control)))
        talk.expect()
        talk.waitForDeadline()
        talk.expect(.connect())
    }

    @Test(
        "a link error that a retry cannot fix ends the push at once",
        arguments: [LinkError.Code.unavailable, .noSuchDevice, .inUse, .notPermitted])
    func endsAtOnceWhereThereIsNoDevice(code: LinkError.Code) throws {
        var talk = try push()
        talk.tell(.linkDown(LinkError(code, "none")))
        #expect(talk.error?.rawValue == code.rawValue)
    }

    @Test("an interrupted push disconnects and ends with interrupted")
    func stopsWhenInterrupted() throws {
        var talk = try push()
        talk.comeUp(Device())
        talk.expect("01 21 01 a9 00 00 00 00 00 00 00 ab 01 74 64 e2 fa 78 e9")
        talk.tell(.interrupted)
        talk.expect(.disconnect)
        #expect(talk.error == .interrupted)
    }

    @Test(
        "a push to a device that does not fit the bundle is refused before it starts",
        arguments: [
            (.wrongProduct, Device(product: "other")), (.wrongHardware, Device(hardware: 4)),
            (.counterTooLow, Device(counter: 8)), (.wrongImageFormat, Device(format: 1)),
            (.imageTooLarge, Device(largest: [0x57, 2, 0, 0])), (.untrustedByDevice, Device(key: Array(1...8))),
            (.noTrial, Device(trialSeconds: 0)), (.downgrade, Device(version: "1.2.0")),
        ] as [(UpdateError.Code, Conversation.Device)])
    func refusesEarly(code: UpdateError.Code, device: Conversation.Device) throws {
        var talk = try push(UpdateOptions(refusesDowngrade: true))
        talk.comeUp(device)
        talk.expect(.disconnect)
        #expect(talk.error == code)
    }

    @Test("a push of an older version reports a downgrade and continues if downgrades are allowed")
    func notesADowngradeAndGoesOn() throws {
        var talk = try push(UpdateOptions())
        talk.comeUp(Device(version: "1.2.0"))
        #expect(talk.outcome == nil)
        #expect(talk.reports.contains { if case .downgrade = $0 { true } else { false } })
    }

    @Test("a push that never resumes is refused while the device is on trial")
    func refusesADeviceOnTrial() throws {
        var talk = try push(UpdateOptions(resume: .never))
        talk.comeUp(Device(version: "1.1.0", state: 5))
        #expect(talk.error == .inTrial)
    }

    @Test("a permanent push is refused if the device supports trials")
    func refusesPermanentWhereThereIsATrial() throws {
        var talk = try push(UpdateOptions(ending: .permanent))
        talk.comeUp(Device())
        #expect(talk.error == .trialAvailable)
    }

    @Test("a permanent push succeeds on a device without trials")
    func mayBePermanentWhereThereIsNoTrial() throws {
        var talk = try push(UpdateOptions(ending: .permanent))
        talk.comeUp(Device(trialSeconds: 0))
        acceptEnvelope(&talk)
        transferImage(&talk)
        talk.expect("04 27 01", answering: "84 27 00")
        talk.tell(.linkDown(LinkError(.lost, "closed")))
        talk.waitForDeadline()
        talk.comeUpAgain(Device(version: "1.1.0"))
        #expect(talk.report?.outcome == .confirmed)
    }

    // Status 17 means that the device's policy refuses a request. For a permanent APPLY the only reason is an available trial.
    @Test("a permanent APPLY that the device refuses by policy ends with trial-available")
    func permanentIsRefusedByTheDevice() throws {
        var talk = try push(UpdateOptions(ending: .permanent))
        talk.comeUp(Device(trialSeconds: 0))
        acceptEnvelope(&talk)
        transferImage(&talk)
        talk.expect("04 27 01", answering: "84 27 11")
        #expect(talk.error == .trialAvailable)
    }

    @Test("a device without the profile's characteristics is refused as unsupported")
    func refusesADeviceThatSpeaksAnotherLanguage() throws {
        var talk = try push()
        talk.tell(.linkUp(LinkProperties(channels: [ProfileChannel.info], maximumValueLength: 244)))
        #expect(talk.error == .unsupportedDevice)
    }

    // MARK: The other tasks

    @Test("status reports the version, the battery level and the held bytes")
    func tellsTheStatus() throws {
        var talk = try Conversation(.status)
        talk.comeUp(Device(held: [1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 0, 0], battery: 80))
        let device = try #require(talk.report?.device)
        #expect(device.runningVersion == "1.0.0" && device.battery == 80 && device.held?.offset == 256)
    }

    @Test("confirm succeeds on a device on trial, and ends with not-in-trial on an idle device")
    func confirms() throws {
        var talk = try Conversation(.confirm)
        talk.comeUp(Device(version: "1.1.0", state: 5))
        talk.expect("05 21", answering: "85 21 00")
        talk.describe(Device(counter: 9, version: "1.1.0"))
        #expect(talk.report?.outcome == .confirmed && talk.report?.device.securityCounter == 9)
        var idle = try Conversation(.confirm)
        idle.comeUp(Device())
        #expect(idle.error == .notInTrial)
    }

    // The answer to CONFIRM gets lost, and the old image has the same version.
    @Test("confirm ends with rolled-back if another image with the same version runs after a link loss")
    func doesNotTakeAnotherImageOfTheSameVersionForTheConfirmedOne() throws {
        var talk = try Conversation(.confirm)
        talk.comeUp(Device(running: Array(1...8), version: "1.1.0", state: 5))
        talk.expect("05 21")
        talk.tell(.linkDown(LinkError(.lost, "gone")))
        talk.waitForDeadline()
        talk.comeUpAgain(Device(running: Array(11...18), version: "1.1.0"))
        #expect(talk.error == .rolledBack)
    }

    // A device that supports several links may accept a new link before it notices the lost one and restarts.
    @Test("a push waits for the restart if the link broke before the answer to APPLY")
    func waitsForARestartWhereTheAnswerToApplyNeverCame() throws {
        var talk = try push(UpdateOptions(resume: .never))
        talk.comeUp(Device())
        acceptEnvelope(&talk)
        talk.expect(
            "01 24 02 58 02 00 00 00 00 00 00 db 4f 2a c2 5d 14 03 69",
            answering: "81 24 00 01 20 00 00 00 00 00 00 00 00")
        talk.forget()
        talk.notify("82 25 00 04 20 58 02 00 00 3b 94 b2 df")
        talk.expect("03 26", answering: "83 26 00")
        talk.expect("04 27 00")
        talk.tell(.linkDown(LinkError(.lost, "gone")))
        talk.waitForDeadline()
        talk.expect(.connect())
        talk.comeUp(Device())
        talk.expect(.disconnect)
        talk.tell(.linkDown(LinkError(.lost, "closed")))
        talk.waitForDeadline()
        talk.expect(.connect())
        talk.comeUp(Device(version: "1.1.0", state: 5))
        talk.expect("05 28", answering: "85 28 00")
        #expect(talk.report?.outcome == .confirmed)
    }

    // The answer to APPLY gets lost, but the device was seen on trial.
    @Test("a push fails with rolled-back if the device was on trial and now runs the old image")
    func doesNotApplyAgainWhatWasTried() throws {
        var talk = try push()
        talk.comeUp(Device())
        acceptEnvelope(&talk)
        transferImage(&talk)
        talk.expect("04 27 00")
        talk.tell(.linkDown(LinkError(.lost, "gone")))
        talk.waitForDeadline()
        talk.expect(.connect())
        talk.comeUp(Device(version: "1.1.0", state: 5))
        talk.expect("05 28")
        talk.tell(.linkDown(LinkError(.lost, "gone")))
        talk.now += .seconds(5)
        talk.waitForDeadline()
        talk.expect(.connect())
        talk.comeUp(Device())
        #expect(talk.error == .rolledBack)
    }

    // The device is busy for longer than the restart and the trial may take. Only then the link breaks.
    @Test("a session reconnects for one restart time if the link breaks during CONFIRM after the deadline")
    func looksAgainAfterALateLossDuringConfirm() throws {
        var talk = try push()
        talk.comeUp(Device(version: "1.1.0", state: 5))
        talk.confirmIsBusy(until: .seconds(84))
        talk.tell(.linkDown(LinkError(.lost, "gone")))
        #expect(talk.outcome == nil, "\(String(describing: talk.outcome))")
        talk.waitForDeadline()
        #expect(talk.now < .seconds(86))
        talk.comeUpAgain(Device(version: "1.1.0"))
        #expect(talk.report?.outcome == .confirmed)
    }

    @Test("a push ends after one restart time if the device does not return after a late link loss")
    func looksNoLongerThanARestartTakesAfterALateLoss() throws {
        var talk = try push()
        talk.comeUp(Device(version: "1.1.0", state: 5))
        talk.confirmIsBusy(until: .seconds(84))
        talk.tell(.linkDown(LinkError(.lost, "gone")))
        while talk.outcome == nil, talk.now < .seconds(200) {
            talk.waitForDeadline()
            talk.tell(.linkDown(LinkError(.lost, "not there")))
        }
        #expect(talk.error == .didNotReturn)
        #expect(talk.now >= .seconds(94) && talk.now < .seconds(100))
    }

    @Test("a push ends with did-not-return at the fourth link loss after the deadline")
    func givesUpLinksThatBreakAfterTheDeadline() throws {
        var talk = try push()
        talk.comeUp(Device(version: "1.1.0", state: 5))
        talk.confirmIsBusy(until: .seconds(84))
        var losses = 0
        while talk.outcome == nil, losses < 100 {
            talk.now += .seconds(20)
            talk.tell(.linkDown(LinkError(.lost, "gone")))
            losses += 1
            guard talk.outcome == nil else { break }
            talk.waitForDeadline()
            talk.comeUpAgain(Device(version: "1.1.0", state: 5))
        }
        #expect(talk.error == .didNotReturn)
        #expect(losses == 4)
    }

    @Test("discard ends a trial and reports the version after the restart")
    func discardsATrialAndLooks() throws {
        var talk = try Conversation(.discard())
        talk.comeUp(Device(version: "1.1.0", state: 5))
        talk.expect("06 21", answering: "86 21 00")
        talk.expect(.disconnect)
        talk.tell(.linkDown(LinkError(.lost, "closed")))
        talk.waitForDeadline()
        talk.comeUpAgain(Device())
        #expect(talk.report?.device.runningVersion == "1.0.0")
        #expect(talk.report?.device.previousVersion == "1.1.0")
    }

    @Test("confirm ends at its time limit if the device accepts CONFIRM but stays on trial")
    func endsAtTheTimeLimit() throws {
        var talk = try Conversation(.confirm)
        talk.comeUp(Device(version: "1.1.0", state: 5))
        talk.expect("05 21", answering: "85 21 00")
        talk.now += .seconds(2 * 600 + 3600)
        talk.describe(Device(version: "1.1.0", state: 5))
        #expect(talk.error == .didNotReturn)
    }

    @Test("confirm ends if the device repeatedly accepts CONFIRM but stays on trial")
    func endsWhereTheTrialDoesNotEnd() throws {
        var talk = try Conversation(.confirm)
        talk.comeUp(Device(version: "1.1.0", state: 5))
        var tag = 0x21
        while talk.outcome == nil, tag < 0x80 {
            let number = String(tag, radix: 16)
            talk.expect("05 \(number)", answering: "85 \(number) 00")
            if talk.outcome == nil { talk.describe(Device(version: "1.1.0", state: 5)) }
            tag += 1
        }
        #expect(talk.error == .protocolViolation && tag < 0x40)
    }

    @Test("discard ends if the device repeatedly accepts DISCARD but stays on trial")
    func endsWhereTheDiscardedTrialDoesNotEnd() throws {
        var talk = try Conversation(.discard())
        talk.comeUp(Device(version: "1.1.0", state: 5))
        var tag = 0x21
        while talk.outcome == nil, tag < 0xF0 {
            let number = String(tag, radix: 16)
            talk.expect("06 \(number)", answering: "86 \(number) 00")
            talk.expect(.disconnect)
            talk.tell(.linkDown(LinkError(.lost, "closed")))
            talk.waitForDeadline()
            talk.expect(.connect())
            talk.comeUp(Device(version: "1.1.0", state: 5))
            tag += 1
        }
        #expect(talk.error == .didNotReturn && talk.now < .seconds(200))
    }

    @Test("a push to a device that announces an 18 hour trial and does not return ends within 81 minutes")
    func believesNoTimesBeyondTheMaxima() throws {
        var talk = try push()
        talk.comeUp(Device(restartSeconds: 65_535, trialSeconds: 65_535))
        acceptEnvelope(&talk)
        transferImage(&talk)
        apply(&talk)
        for _ in 0..<10_000 where talk.outcome == nil {
            talk.tell(.linkDown(LinkError(.timedOut, "no device")))
            if talk.outcome == nil { talk.waitForDeadline() }
            talk.forget()
        }
        #expect(talk.error == .didNotReturn && talk.now < .seconds(2 * 600 + 3600 + 60), "\(talk.now)")
    }

    @Test("identify sends IDENTIFY with its duration and ends with the answer")
    func identifies() throws {
        var talk = try Conversation(.identify(seconds: 5))
        talk.comeUp(Device())
        talk.expect("07 21 05", answering: "87 21 00")
        #expect(talk.report?.outcome == .done)
    }

    @Test("identify fails with unsupported-device if the device answers with unknown opcode")
    func cannotIdentify() throws {
        var talk = try Conversation(.identify(seconds: 5))
        talk.comeUp(Device())
        talk.expect("07 21 05", answering: "87 21 01")
        #expect(talk.error == .unsupportedDevice)
    }
}

extension Conversation {
    /// Answers each CONFIRM with *busy* until this time.
    fileprivate mutating func confirmIsBusy(until end: Duration) {
        var tag = 0x21
        while outcome == nil, now < end, tag < 0x80 {
            let number = String(tag, radix: 16)
            expect("05 \(number)", answering: "85 \(number) 04")
            tag += 1
            waitForDeadline()
        }
        forget()
    }

    fileprivate mutating func comeUpAgain(_ device: Device) {
        forget()
        comeUp(device)
        forget()
    }
}
