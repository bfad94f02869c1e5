import OTAFirmware
import OTASigning
import OTASimulator
import Testing

@Suite("Virtual bootloader") struct VirtualBootloaderTests {
    /// A flash with the factory image, version 1.0.0.
    private func factory(pageSize: Int = 2048) throws -> (VirtualFlash, VirtualBootloader) {
        let flash = VirtualFlash(layout: FlashLayout(pageSize: pageSize, slotSize: pageSize))
        let bootloader = VirtualBootloader(flash: flash)
        try bootloader.install([1, 2, 3, 4, 5], version: try Example.version("1.0.0"), securityCounter: 3)
        return (flash, bootloader)
    }

    /// Writes a new image to a slot, as the device core does, and returns its record.
    private func write(_ number: Int, into slot: Int, of flash: VirtualFlash) throws(FlashError) -> BootImage {
        let bytes = Array(repeating: UInt8(truncatingIfNeeded: number), count: 100)
        let offset = 4 * flash.layout.pageSize + slot * flash.layout.slotSize
        try flash.erasePage(at: offset)
        try flash.program(bytes, at: offset)
        return BootImage(
            version: "2.0.\(number)", securityCounter: UInt32(number), manifestDigest: SHA256.digest(of: [1]),
            size: bytes.count, digest: SHA256.digest(of: bytes))
    }

    @Test("the factory image boots permanently with its version, size and security counter")
    func bootsTheFactoryImageForGood() throws {
        let (_, bootloader) = try factory()
        for _ in 0..<3 {
            let boot = try Example.unwrap(bootloader.boot())
            #expect(boot.slot == 0 && !boot.isOnTrial && boot.permanentCounter == 3)
            #expect(boot.image.version == "1.0.0" && boot.image.manifestDigest == nil && boot.image.size == 5)
        }
    }

    @Test("an unconfirmed image boots once on trial, then the bootloader rolls back")
    func aTrialIsBootedOnceAndThenGoesBack() throws {
        let (flash, bootloader) = try factory()
        try bootloader.mark(try write(7, into: 1, of: flash), forGood: false)
        let trial = try Example.unwrap(bootloader.boot())
        #expect(trial.slot == 1 && trial.isOnTrial && trial.image.version == "2.0.7")
        // The security counter of the permanent image increases only with the confirmation.
        #expect(trial.permanentCounter == 3 && trial.image.securityCounter == 7)
        let back = try Example.unwrap(bootloader.boot())
        #expect(back.slot == 0 && !back.isOnTrial && back.image.version == "1.0.0")
        #expect(try bootloader.boot() == back)
    }

    @Test("a confirmed image boots permanently and raises the security counter")
    func aConfirmedTrialStays() throws {
        let (flash, bootloader) = try factory()
        try bootloader.mark(try write(7, into: 1, of: flash), forGood: false)
        _ = try bootloader.boot()
        try bootloader.confirm()
        let boot = try Example.unwrap(bootloader.boot())
        #expect(boot.slot == 1 && !boot.isOnTrial && boot.permanentCounter == 7)
    }

    @Test("an image marked as permanent needs no confirmation")
    func aMarkForGoodNeedsNoConfirmation() throws {
        let (flash, bootloader) = try factory()
        try bootloader.mark(try write(7, into: 1, of: flash), forGood: true)
        let boot = try Example.unwrap(bootloader.boot())
        #expect(boot.slot == 1 && !boot.isOnTrial && boot.permanentCounter == 7)
        #expect(try bootloader.boot() == boot)
    }

    @Test("a renewed trial boots once more; after the rollback, a renewal and a confirmation have no effect")
    func aTrialCanBeGivenItsBootBack() throws {
        let (flash, bootloader) = try factory()
        try bootloader.mark(try write(7, into: 1, of: flash), forGood: false)
        _ = try bootloader.boot()
        try bootloader.renewTrial()
        #expect(try bootloader.boot()?.isOnTrial == true)
        #expect(try bootloader.boot()?.isOnTrial == false)
        try bootloader.renewTrial()
        try bootloader.confirm()
        #expect(try bootloader.boot()?.image.version == "1.0.0")
    }

    @Test("an image whose digest differs from its record does not boot")
    func anImageThatDoesNotHashToItsRecordIsNotBooted() throws {
        let (flash, bootloader) = try factory()
        let damaged = try write(7, into: 1, of: flash)
        try flash.erasePage(at: 5 * flash.layout.pageSize)
        try bootloader.mark(damaged, forGood: false)
        #expect(try bootloader.boot()?.image.version == "1.0.0")
        try bootloader.mark(damaged, forGood: true)
        let boot = try Example.unwrap(bootloader.boot())
        #expect(boot.image.version == "1.0.0" && !boot.isOnTrial)
        // Without a valid image in either slot, nothing boots.
        try flash.erasePage(at: 4 * flash.layout.pageSize)
        #expect(try bootloader.boot() == nil)
    }

    @Test("an erased flash has no bootable image")
    func anEmptyFlashBootsNothing() throws {
        #expect(
            try VirtualBootloader(flash: VirtualFlash(layout: FlashLayout(pageSize: 512, slotSize: 512))).boot() == nil)
    }

    /// Runs four updates: number 2 is not confirmed, and number 3 is marked as permanent. `run` throws at a power cut. Then `current` is
    /// the permanent version, and `next` is the version that may already be permanent.
    private struct Updates {
        var current = "1.0.0"
        var next: String?
        var slot = 0

        mutating func run(_ tests: VirtualBootloaderTests, _ flash: VirtualFlash) throws(FlashError) {
            let bootloader = VirtualBootloader(flash: flash)
            _ = try bootloader.boot()
            for number in 1...4 {
                let image = try tests.write(number, into: 1 - slot, of: flash)
                next = image.version
                try bootloader.mark(image, forGood: number == 3)
                _ = try bootloader.boot()
                if number != 2 {
                    try bootloader.confirm()
                    current = image.version
                    slot = 1 - slot
                }
                next = nil
                _ = try bootloader.boot()
            }
        }
    }

    @Test(
        "after a power cut at any flash operation, the old or the new image boots and no trial remains",
        arguments: [512, 1024, 2048])
    func noPowerCutLeavesItUnbootableOrUndecided(pageSize: Int) throws {
        let (whole, _) = try factory(pageSize: pageSize)
        let before = whole.operationCount
        var updates = Updates()
        try updates.run(self, whole)
        #expect(updates.current == "2.0.4")
        let operations = before + 1...whole.operationCount
        #expect(operations.count >= 20)
        for operation in operations {
            for moment in PowerCut.Moment.allCases {
                let (flash, bootloader) = try factory(pageSize: pageSize)
                flash.powerCuts = [PowerCut(operation: operation, moment: moment)]
                var updates = Updates()
                #expect(throws: FlashError.noPower) { try updates.run(self, flash) }
                flash.isPowered = true
                let first = try Example.unwrap(bootloader.boot())
                let allowed = [updates.current, updates.next ?? updates.current]
                #expect(allowed.contains(first.image.version), "operation \(operation), \(moment)")
                // The second boot ends a trial.
                let second = try Example.unwrap(bootloader.boot())
                #expect(!second.isOnTrial && allowed.contains(second.image.version))
                #expect(first.isOnTrial || second == first)
                #expect(try bootloader.boot() == second)
                #expect(flash.violationCount == 0)
            }
        }
    }

    @Test(
        "a mark that fails or is written wrongly is reported, changes nothing, and can be repeated",
        arguments: FlashFault.Kind.allCases)
    func aMarkThatFails(kind: FlashFault.Kind) throws {
        let (flash, bootloader) = try factory()
        let old = try Example.unwrap(bootloader.boot())
        let image = try write(7, into: 1, of: flash)
        flash.faults = [FlashFault(operation: flash.operationCount + 1, kind: kind)]
        #expect(throws: FlashError.failed) { try bootloader.mark(image, forGood: true) }
        // With the fault `afterwards`, the operation succeeds although it reports a failure.
        if kind != .afterwards {
            #expect(try bootloader.boot() == old)
            try bootloader.mark(image, forGood: true)
        }
        #expect(try bootloader.boot()?.image.version == "2.0.7")
        #expect(flash.violationCount == 0)
    }

    @Test("after two power cuts, the second during recovery, a permanent image boots", arguments: [512, 2048])
    func aSecondPowerCutInTheRecoveryIsNoMatterEither(pageSize: Int) throws {
        let (whole, _) = try factory(pageSize: pageSize)
        let before = whole.operationCount
        var updates = Updates()
        try updates.run(self, whole)
        for operation in before + 1...whole.operationCount {
            for second in 1...3 {
                for moment in PowerCut.Moment.allCases {
                    let (flash, bootloader) = try factory(pageSize: pageSize)
                    flash.powerCuts = [
                        PowerCut(operation: operation, moment: .during),
                        PowerCut(operation: operation + second, moment: moment),
                    ]
                    var updates = Updates()
                    #expect(throws: FlashError.noPower) { try updates.run(self, flash) }
                    var boots: [VirtualBootloader.Boot?] = []
                    while boots.count < 3 {
                        flash.isPowered = true
                        if let boot = try? bootloader.boot() {
                            boots.append(boot)
                        } else if flash.isPowered {
                            Issue.record("unbootable after operation \(operation) and \(second) more, \(moment)")
                            return
                        }
                    }
                    #expect(boots[2]?.isOnTrial == false)
                    #expect([updates.current, updates.next].contains(boots[2]?.image.version))
                    #expect(flash.violationCount == 0)
                }
            }
        }
    }
}
