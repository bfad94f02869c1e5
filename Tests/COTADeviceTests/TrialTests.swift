import COTADevice
import Testing

/// From APPLY on: the reboot, the trial, its end in either way.
@Suite struct TrialTests {
    private func bench(_ state: ota_state, _ edit: (inout Settings) -> Void = { _ in }) -> Bench {
        var settings = Settings()
        edit(&settings)
        let bench = Bench(settings)
        bench.bring(to: state)
        return bench
    }

    @Test func applyRebootsTwoSecondsLater() {
        let bench = bench(OTA_STATE_VERIFIED) { $0.permanentAllowed = true }
        #expect(bench.request(OTA_APPLY, [1]) == OTA_OK)
        #expect(bench.settle() == 2000)
        bench.pass(1999)
        #expect(bench.log == ["mark"])
        bench.pass(1)
        #expect(bench.log == ["mark", "reboot"])
        #expect(bench.marks.map(\.boot) == [OTA_BOOT_PERMANENT])
    }

    @Test func applyRebootsWhenTheHostLeaves() {
        let bench = bench(OTA_STATE_VERIFIED)
        bench.connect(2)
        #expect(bench.request(OTA_APPLY, [0]) == OTA_OK)
        bench.disconnect(2)
        #expect(bench.log == ["mark"])
        bench.disconnect(1)
        #expect(bench.log == ["mark", "reboot"])
    }

    /// What is marked is not touched any more, however the host may beg.
    @Test func nothingButIdentifyAfterApply() {
        let bench = bench(OTA_STATE_VERIFIED)
        bench.request(OTA_APPLY, [0])
        let image = Bench.beginArguments(OTA_OBJECT_IMAGE, Release().image)
        let envelope = Bench.beginArguments(OTA_OBJECT_ENVELOPE, Release().envelope)
        for (opcode, arguments) in [
            (OTA_BEGIN, image), (OTA_BEGIN, envelope), (OTA_APPLY, [0]), (OTA_DISCARD, []), (OTA_CONFIRM, []),
        ] {
            #expect(bench.request(opcode, arguments) == OTA_BAD_STATE)
        }
        #expect(bench.request(OTA_IDENTIFY, [1]) == OTA_OK)
        #expect(bench.marks.count == 1)
    }

    @Test func aDeviceThatRebootedDoesNothingMore() {
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

    @Test(arguments: [2, 255] as [UInt8])
    func unknownModes(_ mode: UInt8) {
        let bench = bench(OTA_STATE_VERIFIED)
        #expect(bench.request(OTA_APPLY, [mode]) == OTA_BAD_ARGUMENT)
        #expect(bench.state == OTA_STATE_VERIFIED)
    }

    @Test func noTrialWithoutAWayBack() {
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

    @Test func aMarkThatFails() {
        let bench = bench(OTA_STATE_VERIFIED)
        bench.markFails = true
        #expect(bench.request(OTA_APPLY, [0]) == OTA_FLASH_FAILED)
        #expect(bench.state == OTA_STATE_VERIFIED)
        bench.pass(5000)
        #expect(bench.log.isEmpty)
        bench.markFails = false
        #expect(bench.request(OTA_APPLY, [0]) == OTA_OK)
    }

    @Test func confirm() {
        let bench = bench(OTA_STATE_TRIAL) {
            $0.trialCounter = 9
            $0.runningDigest = [UInt8](repeating: 0xD1, count: 32)
        }
        #expect(info(bench, 4) == [5, 0, 0, 0])
        #expect(bench.request(OTA_CONFIRM) == OTA_OK)
        #expect(bench.confirmations == [.init(counter: 9, digest: [UInt8](repeating: 0xD1, count: 32))])
        #expect(bench.state == OTA_STATE_IDLE)
        // The counter has risen: for the next connection's Info, and for the next envelope at once.
        #expect(info(bench, 4) == [5, 0, 0, 0])
        #expect(bench.submit(Release(counter: 8).envelope) == OTA_TOO_OLD)
        #expect(bench.submit(Release(counter: 9).envelope) == OTA_OK)
        bench.reconnect()
        #expect(info(bench, 4) == [9, 0, 0, 0])
        bench.pass(100_000_000)
        #expect(bench.log == ["confirm"])
    }

    @Test func confirmNeverLowersTheCounter() {
        let bench = bench(OTA_STATE_TRIAL) { $0.trialCounter = 4 }
        #expect(bench.request(OTA_CONFIRM) == OTA_OK)
        #expect(bench.submit(Release(counter: 4).envelope) == OTA_TOO_OLD)
    }

    @Test func confirmWaitsForTheSelfTest() {
        let bench = bench(OTA_STATE_TRIAL)
        bench.selfTestPassed = false
        #expect(bench.request(OTA_CONFIRM) == OTA_BUSY)
        #expect(bench.state == OTA_STATE_TRIAL)
        bench.selfTestPassed = true
        #expect(bench.request(OTA_CONFIRM) == OTA_OK)
    }

    @Test func aConfirmThatFails() {
        let bench = bench(OTA_STATE_TRIAL)
        bench.confirmFails = true
        #expect(bench.request(OTA_CONFIRM) == OTA_FLASH_FAILED)
        #expect(bench.state == OTA_STATE_TRIAL)
        bench.pass(60_000)
        #expect(bench.log == ["roll back", "reboot"])
    }

    @Test func aTrialEndsByItself() {
        let bench = bench(OTA_STATE_TRIAL)
        #expect(bench.settle() == 60_000)
        bench.reconnect()
        bench.pass(59_999)
        #expect(bench.log.isEmpty)
        bench.pass(1)
        #expect(bench.log == ["roll back", "reboot"])
    }

    @Test func theLongestTrialOverTheClocksWrap() {
        let bench = Bench()
        bench.settings.trialSeconds = 65535
        bench.now = .max - 5000
        bench.bring(to: OTA_STATE_TRIAL)
        bench.pass(65_534_999)
        #expect(bench.log.isEmpty)
        bench.pass(1)
        #expect(bench.log == ["roll back", "reboot"])
    }

    /// CONFIRM that arrives with the trial's end, before a poll noticed it: too late.
    @Test func tooLate() {
        let bench = bench(OTA_STATE_TRIAL)
        bench.now &+= 60_000
        #expect(bench.request(OTA_CONFIRM) == OTA_BAD_STATE)
        #expect(bench.log == ["roll back", "reboot"])
    }

    @Test func discardGivesTheTrialUp() {
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

    @Test func discardWithoutDisconnecting() {
        let bench = bench(OTA_STATE_TRIAL)
        #expect(bench.request(OTA_DISCARD) == OTA_OK)
        bench.pass(1999)
        #expect(bench.log.isEmpty)
        bench.pass(1)
        #expect(bench.log == ["roll back", "reboot"])
    }

    /// A trial may be confirmed by whoever connects; nobody owns it.
    @Test func anyConnectionMayConfirm() {
        let bench = bench(OTA_STATE_TRIAL)
        bench.connect(2)
        #expect(
            bench.request(OTA_BEGIN, Bench.beginArguments(OTA_OBJECT_ENVELOPE, Release().envelope)) == OTA_BAD_STATE)
        #expect(bench.request(OTA_CONFIRM, by: 2) == OTA_OK)
    }
}

/// The value of one type in the Info a connection reads.
func info(_ bench: Bench, _ type: UInt8, by connection: UInt16 = 1) -> [UInt8]? {
    guard var rest = bench.read(OTA_INFO, by: connection)?[...] else { return nil }
    while rest.count >= 2 {
        let item = rest.prefix(2 + Int(rest[rest.startIndex + 1]))
        if item.first == type { return Array(item.dropFirst(2)) }
        rest = rest.dropFirst(item.count)
    }
    return nil
}
