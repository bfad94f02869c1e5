import OTASimulator
import SystemPackage
import Testing

@Suite("Virtual flash") struct VirtualFlashTests {
    private let layout = FlashLayout(pageSize: 512, slotSize: 1024)

    private func contents(_ flash: VirtualFlash, _ offset: Int, _ count: Int) throws -> [UInt8] {
        try flash.withBytes(at: offset, count: count) { Array($0) }
    }

    @Test("a new flash is erased; programs change only their bytes, and erases only their page")
    func isErasedAtFirstProgrammedInPlaceAndErasedByPages() throws {
        let flash = VirtualFlash(layout: layout)
        #expect(try contents(flash, 0, layout.size).allSatisfy { $0 == 0xFF })
        try flash.program([1, 2, 3, 4], at: 508)
        try flash.program([5, 6, 7, 8], at: 512)
        #expect(try contents(flash, 507, 10) == [0xFF, 1, 2, 3, 4, 5, 6, 7, 8, 0xFF])
        try flash.erasePage(at: 0)
        #expect(try contents(flash, 507, 10) == [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 5, 6, 7, 8, 0xFF])
        #expect(flash.operationCount == 3)
        #expect(flash.violationCount == 0)
    }

    @Test("programming bytes that are not erased only clears bits and counts as a violation")
    func programmingOnWhatIsNotErasedClearsBitsAndIsAViolation() throws {
        let flash = VirtualFlash(layout: layout)
        try flash.program([0xF0, 0xFF, 0x0F, 0xFF], at: 0)
        #expect(throws: FlashError.notErased) { try flash.program([0x3C, 1, 2, 0xFF], at: 0) }
        #expect(try contents(flash, 0, 4) == [0x30, 1, 2, 0xFF])
        #expect(flash.violationCount == 1)
    }

    @Test("an unaligned or out-of-range operation changes nothing and counts as a violation")
    func whatIsNotAlignedOrOutsideIsAViolationAndDoesNothing() throws {
        let flash = VirtualFlash(layout: layout)
        #expect(throws: FlashError.unaligned) { try flash.program([0, 0, 0, 0], at: 2) }
        #expect(throws: FlashError.unaligned) { try flash.program([0, 0, 0], at: 4) }
        #expect(throws: FlashError.unaligned) { try flash.erasePage(at: 256) }
        #expect(throws: FlashError.outside) { try flash.program([0, 0, 0, 0], at: layout.size) }
        #expect(throws: FlashError.outside) { try flash.erasePage(at: layout.size) }
        #expect(throws: FlashError.outside) { try flash.erasePage(at: -512) }
        #expect(throws: FlashError.outside) { try flash.withBytes(at: layout.size - 1, count: 2) { _ in } }
        #expect(flash.violationCount == 7)
        #expect(flash.operationCount == 0)
        #expect(try contents(flash, 0, layout.size).allSatisfy { $0 == 0xFF })
    }

    @Test("an empty program changes nothing, also if the operation has a fault", arguments: [0, 512, 1024])
    func anEmptyProgramChangesNothing(offset: Int) throws {
        let flash = VirtualFlash(layout: layout)
        flash.faults = [FlashFault(operation: 1, kind: .silently)]
        try flash.program([], at: offset)
        #expect(try contents(flash, 0, layout.size).allSatisfy { $0 == 0xFF })
        #expect(flash.operationCount == 1 && flash.violationCount == 0)
    }

    @Test(
        "a power cut before, during or after a program leaves none, half or all of its bytes",
        arguments: [
            (PowerCut.Moment.before, [0xFF, 0xFF, 0xFF, 0xFF] as [UInt8]),
            (.during, [1, 2, 0xFF, 0xFF]), (.after, [1, 2, 3, 4]),
        ])
    func powerFailsBeforeInTheMiddleOfOrAfterAProgram(moment: PowerCut.Moment, left: [UInt8]) throws {
        let flash = VirtualFlash(layout: layout)
        flash.powerCuts = [PowerCut(operation: 2, moment: moment)]
        try flash.erasePage(at: 0)
        #expect(throws: FlashError.noPower) { try flash.program([1, 2, 3, 4], at: 8) }
        #expect(!flash.isPowered)
        #expect(throws: FlashError.noPower) { try flash.erasePage(at: 0) }
        #expect(throws: FlashError.noPower) { try contents(flash, 8, 4) }
        flash.isPowered = true
        #expect(try contents(flash, 8, 4) == left)
        #expect(flash.operationCount == 2)
        #expect(flash.powerCuts.isEmpty)
    }

    @Test(
        "a program that fails with the power on leaves nothing, half of its bytes, all of them, or a wrong bit",
        arguments: [
            (FlashFault.Kind.withoutTrace, [0xFF, 0xFF, 0xFF, 0xFF] as [UInt8]), (.halfway, [1, 2, 0xFF, 0xFF]),
            (.afterwards, [1, 2, 3, 4]), (.silently, [0, 2, 3, 4]),
        ])
    func aProgramFails(kind: FlashFault.Kind, left: [UInt8]) throws {
        let flash = VirtualFlash(layout: layout)
        flash.faults = [FlashFault(operation: 2, kind: kind)]
        try flash.erasePage(at: 0)
        if kind == .silently {
            try flash.program([1, 2, 3, 4], at: 8)
        } else {
            #expect(throws: FlashError.failed) { try flash.program([1, 2, 3, 4], at: 8) }
        }
        #expect(flash.isPowered && flash.faults.isEmpty && flash.violationCount == 0)
        #expect(try contents(flash, 8, 4) == left)
        try flash.program([5, 6, 7, 8], at: 16)
    }

    @Test(
        "an erase that fails with the power on changes nothing, half of its page, or all of it",
        arguments: FlashFault.Kind.allCases)
    func anEraseFails(kind: FlashFault.Kind) throws {
        let flash = VirtualFlash(layout: layout)
        try flash.program([UInt8](repeating: 0, count: 512), at: 512)
        flash.faults = [FlashFault(operation: 2, kind: kind)]
        if kind == .silently {
            try flash.erasePage(at: 512)
        } else {
            #expect(throws: FlashError.failed) { try flash.erasePage(at: 512) }
        }
        let erased = try contents(flash, 512, 512).prefix { $0 == 0xFF }.count
        let expected = [.withoutTrace: 0, .halfway: 256, .afterwards: 512, .silently: 256] as [FlashFault.Kind: Int]
        #expect(erased == expected[kind])
    }

    @Test("a power cut during an erase leaves half of the page with random bytes")
    func aTornEraseLeavesHalfAPageOfGarbage() throws {
        let flash = VirtualFlash(layout: layout)
        flash.powerCuts = [PowerCut(operation: 1, moment: .during)]
        #expect(throws: FlashError.noPower) { try flash.erasePage(at: 512) }
        flash.isPowered = true
        #expect(try contents(flash, 512, 256).allSatisfy { $0 == 0xFF })
        #expect(Set(try contents(flash, 768, 256)).count > 100)
        #expect(try contents(flash, 1024, 512).allSatisfy { $0 == 0xFF })
    }

    @Test("the flash file contains each operation at once, including half of an interrupted program")
    func aFileHoldsWhatWasDoneTheMomentItWasDone() throws {
        try withTemporaryFolder { folder in
            let path = folder.appending("flash")
            let created = try FileDescriptor.open(
                path, .readWrite, options: .create, permissions: .ownerReadWrite)
            try created.writeAll(Array(repeating: 0xFF, count: layout.size))
            let flash = try VirtualFlash(layout: layout, file: created)
            flash.powerCuts = [PowerCut(operation: 3, moment: .during)]
            try flash.program([1, 2, 3, 4], at: 0)
            try flash.erasePage(at: 512)
            #expect(throws: FlashError.noPower) { try flash.program([5, 6, 7, 8], at: 4) }
            // The first descriptor is still open, so its bytes are not buffered.
            let again = try VirtualFlash(layout: layout, file: .open(path, .readOnly))
            #expect(try contents(again, 0, 9) == [1, 2, 3, 4, 5, 6, 0xFF, 0xFF, 0xFF])
            #expect(throws: Errno.invalidArgument) {
                try VirtualFlash(layout: FlashLayout(pageSize: 512, slotSize: 512), file: .open(path, .readOnly))
            }
        }
    }

    @Test("a program on a read-only flash file fails with its errno")
    func aFileThatCannotBeWrittenIsAFlashThatFails() throws {
        try withTemporaryFolder { folder in
            let path = folder.appending("flash")
            let file = try FileDescriptor.open(path, .readWrite, options: .create, permissions: .ownerReadWrite)
            try file.closeAfter { _ = try file.writeAll(Array(repeating: 0xFF, count: layout.size)) }
            let flash = try VirtualFlash(layout: layout, file: .open(path, .readOnly))
            #expect(throws: FlashError.notStored(errno: Errno.badFileDescriptor.rawValue)) {
                try flash.program([1, 2, 3, 4], at: 0)
            }
        }
    }
}
