import COTADevice
import Testing

@Suite("APPLY, trial, CONFIRM and roll back in the device core") struct TrialTests {
    private func bench(_ state: ota_state, _ edit: (inout Settings) -> Void = { _ in }) -> Bench {
        var settings = Settings()
        edit(&settings)
        let bench = Bench(settings)
        bench.bring(to: state)
        return bench
    }

    @Test("the device reboots 2 s after APPLY")
    func applyRebootsTwoSecondsLater() {
        let bench = bench(OTA_STATE_VERIFIED) { $0.permanentAllowed = true }
        #expect(bench.request(OTA_APPLY, [1]) == OTA_OK)
        #expect(bench.settle() == 2000)
        bench.pass(1999)
        #expect(bench.log == ["mark"])
        bench.pass(1)
        #expect(bench.log == ["mark", "reboot"])
        #expect(bench.marks.map(\.boot) == [OTA_BOOT_PERMANENT])
    }

    @Test("the device reboots when the connection that sent APPLY ends")
    func applyRebootsWhenTheHostLeaves() {
        let bench = bench(OTA_STATE_VERIFIED)
        bench.connect(2)
        #expect(bench.request(OTA_APPLY, [0]) == OTA_OK)
        bench.disconnect(2)
        #expect(bench.log == ["mark"])
        bench.disconnect(1)
        #expect(bench.log == ["mark", "reboot"])
    }

    @Test("after APPLY the device refuses every request except IDENTIFY")
    func nothingButIdentifyAfterApply() {
        let bench = bench(OTA_STATE_VERIFIED)
        bench.request(OTA_APPLY, [0])
        let image = Bench.beginArguments(OTA_OBJECT_IMAGE, BenchRelease().image)
        let envelope = Bench.beginArguments(OTA_OBJECT_ENVELOPE, BenchRelease().envelope)
        for (opcode, arguments) in [
            (OTA_BEGIN, image), (OTA_BEGIN, envelope), (OTA_APPLY, [0]), (OTA_DISCARD, []), (OTA_CONFIRM, []),
        ] {
            #expect(bench.request(opcode, arguments) == OTA_BAD_STATE)
        }
        #expect(bench.request(OTA_IDENTIFY, [1]) == OTA_OK)
        #expect(bench.marks.count == 1)
    }

    @Test("after the reboot callback the core ignores every call")
    func aDeviceThatRebootedDoesNothingMore() {
        let bench = bench(OTA_STATE_VERIFIED)
        bench.request(OTA_APPLY, [0])
        bench.disconnect()
        bench.connect(3)
        #expect(bench.read(OTA_VERSION, by: 3) == nil)
        #expect(bench.write(control: [7, 1, 1], by: 1) != OTA_ATT_OK)
        bench.write(data: [0, 0, 1])
        bench.pass(100_000)
        #expect(bench.log == ["mark", "reboot"])
        #expect(bench.identified.isEmpty)
    }

    @Test("APPLY with an unknown mode is a bad argument", arguments: [2, 255] as [UInt8])
    func unknownModes(_ mode: UInt8) {
        let bench = bench(OTA_STATE_VERIFIED)
        #expect(bench.request(OTA_APPLY, [mode]) == OTA_BAD_ARGUMENT)
        #expect(bench.state == OTA_STATE_VERIFIED)
    }

    @Test("a trial is refused if the bootloader cannot roll back")
    func noTrialWithoutAWayBack() {
        let bench = bench(OTA_STATE_VERIFIED) { $0.trialSeconds = 0 }
        #expect(bench.request(OTA_APPLY, [0]) == OTA_BAD_ARGUMENT)
        #expect(bench.request(OTA_APPLY, [1]) == OTA_OK)
    }

    @Test("a permanent APPLY is refused where the bootloader has a trial, unless the configuration allows it")
    func permanentNeedsPermission() {
        let bench = bench(OTA_STATE_VERIFIED)
        #expect(bench.request(OTA_APPLY, [1]) == OTA_REFUSED)
        #expect(bench.state == OTA_STATE_VERIFIED)
        #expect(bench.marks.isEmpty)
        bench.pass(5000)
        #expect(bench.log.isEmpty)
        #expect(bench.request(OTA_APPLY, [0]) == OTA_OK)

        let permissive = self.bench(OTA_STATE_VERIFIED) { $0.permanentAllowed = true }
        #expect(permissive.request(OTA_APPLY, [1]) == OTA_OK)
        #expect(permissive.marks.map(\.boot) == [OTA_BOOT_PERMANENT])
    }

    @Test("APPLY reports a failed mark, and a second APPLY succeeds")
    func aMarkThatFails() {
        let bench = bench(OTA_STATE_VERIFIED)
        bench.markFails = true
        #expect(bench.request(OTA_APPLY, [0]) == OTA_FLASH_FAILED)
        #expect(bench.state == OTA_STATE_VERIFIED)
        bench.pass(5000)
        #expect(bench.log.isEmpty)
        bench.markFails = false
        #expect(bench.request(OTA_APPLY, [0]) == OTA_OK)
    }

    @Test("CONFIRM makes the image permanent and raises the security counter")
    func confirm() {
        let bench = bench(OTA_STATE_TRIAL) {
            $0.trialCounter = 9
            $0.runningDigest = [UInt8](repeating: 0xD1, count: 32)
        }
        #expect(info(bench, 4) == [5, 0, 0, 0])
        #expect(bench.request(OTA_CONFIRM) == OTA_OK)
        #expect(bench.confirmations == [.init(counter: 9, digest: [UInt8](repeating: 0xD1, count: 32))])
        #expect(bench.state == OTA_STATE_IDLE)
        // The new counter applies to the next envelope at once, and to the Info of the next connection.
        #expect(info(bench, 4) == [5, 0, 0, 0])
        #expect(bench.submit(BenchRelease(counter: 8).envelope) == OTA_TOO_OLD)
        #expect(bench.submit(BenchRelease(counter: 9).envelope) == OTA_OK)
        bench.reconnect()
        #expect(info(bench, 4) == [9, 0, 0, 0])
        bench.pass(100_000_000)
        #expect(bench.log == ["confirm"])
    }

    @Test("CONFIRM does not lower the security counter")
    func confirmNeverLowersTheCounter() {
        let bench = bench(OTA_STATE_TRIAL) { $0.trialCounter = 4 }
        #expect(bench.request(OTA_CONFIRM) == OTA_OK)
        #expect(bench.submit(BenchRelease(counter: 4).envelope) == OTA_TOO_OLD)
    }

    @Test("CONFIRM is answered with busy until the self-test has passed")
    func confirmWaitsForTheSelfTest() {
        let bench = bench(OTA_STATE_TRIAL)
        bench.selfTestPassed = false
        #expect(bench.request(OTA_CONFIRM) == OTA_BUSY)
        #expect(bench.state == OTA_STATE_TRIAL)
        bench.selfTestPassed = true
        #expect(bench.request(OTA_CONFIRM) == OTA_OK)
    }

    @Test("after a failed CONFIRM the trial continues and rolls back at its end")
    func aConfirmThatFails() {
        let bench = bench(OTA_STATE_TRIAL)
        bench.confirmFails = true
        #expect(bench.request(OTA_CONFIRM) == OTA_FLASH_FAILED)
        #expect(bench.state == OTA_STATE_TRIAL)
        bench.pass(60_000)
        #expect(bench.log == ["roll back", "reboot"])
    }

    @Test("a trial without CONFIRM rolls back at the end of the trial time")
    func aTrialEndsByItself() {
        let bench = bench(OTA_STATE_TRIAL)
        #expect(bench.settle() == 60_000)
        bench.reconnect()
        bench.pass(59_999)
        #expect(bench.log.isEmpty)
        bench.pass(1)
        #expect(bench.log == ["roll back", "reboot"])
    }

    @Test("the longest trial ends on time although the clock wraps")
    func theLongestTrialOverTheClocksWrap() {
        let bench = Bench()
        bench.settings.trialSeconds = 65535
        bench.now = .max - 5000
        bench.bring(to: OTA_STATE_TRIAL)
        bench.pass(65_534_999)
        #expect(bench.log.isEmpty)
        bench.pass(1)
        #expect(bench.log == ["roll back", "reboot"])
    }

    /// CONFIRM arrives at the end of the trial time, before a poll detects the end.
    @Test("CONFIRM at the end of the trial time is refused")
    func tooLate() {
        let bench = bench(OTA_STATE_TRIAL)
        bench.now &+= 60_000
        #expect(bench.request(OTA_CONFIRM) == OTA_BAD_STATE)
        #expect(bench.log == ["roll back", "reboot"])
    }

    @Test("DISCARD during a trial rolls back when its connection ends")
    func discardGivesTheTrialUp() {
        let bench = bench(OTA_STATE_TRIAL)
        bench.connect(2)
        #expect(bench.request(OTA_DISCARD) == OTA_OK)
        #expect(bench.request(OTA_CONFIRM) == OTA_BAD_STATE)
        #expect(bench.request(OTA_CONFIRM, by: 2) == OTA_BAD_STATE)
        #expect(bench.progress?.state == 5)
        bench.disconnect(2)
        #expect(bench.log.isEmpty)
        bench.disconnect(1)
        #expect(bench.log == ["roll back", "reboot"])
        #expect(bench.confirmations.isEmpty)
    }

    @Test("DISCARD during a trial rolls back after 2 s if the host stays connected")
    func discardWithoutDisconnecting() {
        let bench = bench(OTA_STATE_TRIAL)
        #expect(bench.request(OTA_DISCARD) == OTA_OK)
        bench.pass(1999)
        #expect(bench.log.isEmpty)
        bench.pass(1)
        #expect(bench.log == ["roll back", "reboot"])
    }

    /// A trial has no owner.
    @Test("any connection may confirm a trial")
    func anyConnectionMayConfirm() {
        let bench = bench(OTA_STATE_TRIAL)
        bench.connect(2)
        #expect(
            bench.request(OTA_BEGIN, Bench.beginArguments(OTA_OBJECT_ENVELOPE, BenchRelease().envelope))
                == OTA_BAD_STATE)
        #expect(bench.request(OTA_CONFIRM, by: 2) == OTA_OK)
    }
}

/// Reads Info on a connection and returns the value of one type, or nil.
func info(_ bench: Bench, _ type: UInt8, by connection: UInt16 = 1) -> [UInt8]? {
    guard var rest = bench.read(OTA_INFO, by: connection)?[...] else { return nil }
    while rest.count >= 2 {
        let item = rest.prefix(2 + Int(rest[rest.startIndex + 1]))
        if item.first == type { return Array(item.dropFirst(2)) }
        rest = rest.dropFirst(item.count)
    }
    return nil
}
