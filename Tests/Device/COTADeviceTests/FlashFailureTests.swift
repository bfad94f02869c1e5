import COTADevice
import Testing

/// Flash operations fail while the power stays on.
@Suite("Flash failures in the device core") struct FlashFailureTests {
    private let release = BenchRelease(image: BenchRelease.image(count: 2000))

    private func open(_ edit: (inout Settings) -> Void = { _ in }) throws -> (Bench, Position) {
        var settings = Settings()
        edit(&settings)
        let bench = Bench(settings)
        bench.bring(to: OTA_STATE_ACCEPTED, release)
        return (bench, try #require(bench.begin(OTA_OBJECT_IMAGE, release.image)))
    }

    private static let reported: [Flash.Failure] = [.withoutTrace, .halfway, .afterwards]

    /// The device leaves the state *image*, reports the status, and resumes from the bytes in flash when the flash works again.
    @Test(
        "a flash operation that fails entirely or halfway ends the transfer, and only correct bytes are held",
        arguments: [("erase slot 512", 512), ("write slot 512", 512), ("write record 144", 768)], reported)
    func whileReceiving(_ step: (operation: String, offset: Int), _ failure: Flash.Failure) throws {
        let (operation, offset) = step
        let (bench, position) = try open()
        bench.send(release.image, at: position, upTo: 700)
        bench.flash.failure = failure
        bench.flash.failing = { $0 == operation }
        bench.send(release.image, at: try #require(bench.progress?.position), upTo: 1400)
        #expect(bench.state == OTA_STATE_ACCEPTED)
        let reported = try #require(bench.heard(OTA_PROGRESS).last)
        #expect(reported.starts(with: [2, 15]))
        #expect(reported[4...] == [0, 0, 0, 0, 0, 0, 0, 0])
        #expect(bench.progress?.status == 15)
        #expect(bench.request(OTA_SYNC, [0, 0]) == OTA_BAD_STATE)

        bench.flash.failing = nil
        let resumed = try #require(bench.begin(OTA_OBJECT_IMAGE, release.image, from: .max))
        #expect(resumed.offset == offset)
        #expect(resumed.crc == Crypto.crc32(release.image.prefix(offset)))
        #expect(bench.progress?.status == 0)
        bench.send(release.image, at: resumed)
        #expect(bench.request(OTA_FINISH) == OTA_OK)
        #expect(bench.flash.slot.prefix(2000) == release.image[...])
        #expect(bench.flash.violations.isEmpty)
    }

    /// After the status 15, the host would send the same encoded image again. After 19, it soon sends another form.
    @Test("a base that cannot be read is reported as not decoded, not as a flash failure")
    func unreadableBase() throws {
        let vector = try #require(EncodedVectors.all.first { !$0.base.isEmpty })
        let bench = try encodedBench(vector.image, holding: vector.from, base: vector.base)
        let position = try #require(bench.beginEncoded(base: vector.base))
        bench.flash.failing = { $0.hasPrefix("read base") }
        bench.send(stream: vector.stream, at: position, size: { 510 })
        #expect(bench.state == OTA_STATE_ACCEPTED)
        #expect(bench.heard(OTA_PROGRESS).last?.starts(with: [2, 19]) == true)
        #expect(bench.progress?.status == 19)
    }

    @Test(
        "a reset after a failed flash operation resumes from what is in flash",
        arguments: ["erase slot 512", "write slot 512", "write record 144"], reported)
    func whileReceivingAndThenAReset(_ operation: String, _ failure: Flash.Failure) throws {
        let (bench, position) = try open()
        bench.flash.failure = failure
        bench.flash.failing = { $0 == operation }
        bench.send(release.image, at: position, upTo: 800)
        bench.flash.failing = nil
        let resumed = try resumeAfterReset(bench)
        #expect(resumed.offset == (operation.contains("record") && failure == .afterwards ? 768 : 512))
        bench.send(release.image, at: resumed)
        #expect(bench.request(OTA_FINISH) == OTA_OK)
        #expect(bench.flash.violations.isEmpty)
    }

    /// Restarts the device, and checks that the held bytes are in flash.
    private func resumeAfterReset(_ bench: Bench) throws -> Position {
        bench.flash.failing = nil
        bench.boot()
        bench.connect()
        bench.submit(release.envelope)
        let resumed = try #require(bench.begin(OTA_OBJECT_IMAGE, release.image, from: .max))
        #expect(resumed.crc == Crypto.crc32(release.image.prefix(resumed.offset)))
        return resumed
    }

    @Test("FINISH detects a page that was written incorrectly without an error, and the image is sent again")
    func aPageWrittenWrongly() throws {
        let (bench, position) = try open()
        bench.flash.failure = .silently
        bench.flash.failing = { $0 == "write slot 512" }
        bench.send(release.image, at: position)
        #expect(bench.request(OTA_FINISH) == OTA_DIGEST_MISMATCH)
        bench.flash.failing = nil
        let again = try #require(bench.begin(OTA_OBJECT_IMAGE, release.image, from: .max))
        #expect(again.offset == 0)
        bench.send(release.image, at: again)
        #expect(bench.request(OTA_FINISH) == OTA_OK)
        #expect(bench.flash.violations.isEmpty)
    }

    @Test("a record that was written incorrectly without an error counts as failed")
    func aRecordWrittenWrongly() throws {
        let (bench, position) = try open()
        bench.flash.failure = .silently
        bench.flash.failing = { $0 == "write record 144" }
        bench.send(release.image, at: position, upTo: 800)
        #expect(bench.state == OTA_STATE_ACCEPTED)
        #expect(bench.progress?.status == 15)
        bench.flash.failing = nil
        let resumed = try #require(bench.begin(OTA_OBJECT_IMAGE, release.image, from: .max))
        #expect(resumed.offset == 768)
        bench.send(release.image, at: resumed)
        #expect(bench.request(OTA_FINISH) == OTA_OK)
        #expect(bench.flash.violations.isEmpty)
    }

    /// A step back lowers the record before the erase. If the lower record may not be in flash, no page may be erased. The next
    /// attempt must write the lower record again.
    @Test(
        "no page is erased while a record may still count its bytes",
        arguments: Flash.Failure.allCases)
    func theLowerRecordFails(_ failure: Flash.Failure) throws {
        let (bench, position) = try open()
        bench.send(release.image, at: position, upTo: 1100)
        let back = try #require(bench.begin(OTA_OBJECT_IMAGE, release.image, from: 512))
        bench.flash.operations = []
        bench.flash.failure = failure
        bench.flash.failing = { $0.hasPrefix("write record") }
        bench.send(release.image, at: back, upTo: 800)
        #expect(bench.progress?.status == 15)
        #expect(bench.flash.operations.allSatisfy { $0.contains("record") })

        bench.flash.failure = .withoutTrace
        bench.flash.failing = { $0 == "write slot 512" }
        let again = try #require(bench.begin(OTA_OBJECT_IMAGE, release.image, from: .max))
        bench.send(release.image, at: again, upTo: 800)
        #expect(bench.flash.operations.last == "write slot 512")
        let resumed = try resumeAfterReset(bench)
        #expect(resumed.offset == 512)
        bench.send(release.image, at: resumed)
        #expect(bench.request(OTA_FINISH) == OTA_OK)
        #expect(bench.flash.violations.isEmpty)
    }

    /// The record of the third page is in flash, but its write returned an error.
    @Test("a record that was reported as failed may be in flash: a step back lowers it before it erases")
    func aRecordThatIsThereAfterAll() throws {
        let (bench, position) = try open()
        bench.flash.failure = .afterwards
        bench.flash.failing = { $0 == "write record 144" }
        bench.send(release.image, at: position, upTo: 800)
        bench.flash.failure = .withoutTrace
        bench.flash.failing = { $0 == "write slot 512" }
        bench.send(release.image, at: try #require(bench.begin(OTA_OBJECT_IMAGE, release.image, from: 512)))
        #expect(bench.progress?.status == 15)
        #expect(try resumeAfterReset(bench).offset == 512)
    }

    @Test("DISCARD is durable although the record of the held bytes was reported as failed")
    func discardAfterAFailedRecord() throws {
        let (bench, position) = try open()
        bench.flash.failure = .afterwards
        bench.flash.failing = { $0 == "write record 48" }
        bench.send(release.image, at: position, upTo: 300)
        #expect(bench.progress?.status == 15)
        bench.flash.failing = nil
        #expect(bench.request(OTA_DISCARD) == OTA_OK)
        #expect(try resumeAfterReset(bench).offset == 0)
    }

    /// A record page has five records.
    @Test("a record page whose first record failed is erased again before it is used", arguments: reported)
    func theOtherPageOfRecordsFails(_ failure: Flash.Failure) throws {
        let (bench, position) = try open()
        bench.flash.failure = failure
        bench.flash.failing = { $0 == "write record 256" }
        bench.send(release.image, at: position, upTo: 1600)
        #expect(bench.progress?.status == 15)
        bench.flash.failing = nil
        bench.flash.operations = []
        let resumed = try #require(bench.begin(OTA_OBJECT_IMAGE, release.image, from: .max))
        bench.send(release.image, at: resumed)
        #expect(
            bench.flash.operations.filter { $0.contains("record") }.starts(with: [
                "erase record 256", "write record 256", "write record 304",
            ]))
        #expect(bench.request(OTA_FINISH) == OTA_OK)
        #expect(bench.flash.violations.isEmpty)
    }

    @Test("FINISH reports a failed read, and succeeds when the flash works again")
    func whileItIsReadBack() throws {
        let (bench, position) = try open()
        bench.send(release.image, at: position)
        bench.flash.failing = { $0 == "read slot 1024" }
        #expect(bench.request(OTA_FINISH) == OTA_FLASH_FAILED)
        #expect(bench.state == OTA_STATE_ACCEPTED)
        bench.flash.failing = nil
        #expect(bench.begin(OTA_OBJECT_IMAGE, release.image, from: .max)?.offset == 2000)
        #expect(bench.request(OTA_FINISH) == OTA_OK)
    }

    @Test("FINISH reports digest mismatch if the hash fails")
    func aHashThatFails() throws {
        let (bench, position) = try open()
        bench.send(release.image, at: position)
        bench.hashFails = true
        #expect(bench.request(OTA_FINISH) == OTA_DIGEST_MISMATCH)
    }

    /// The digest differs, and discarding the image cannot be recorded. After a reset FINISH would refuse the image again.
    @Test("if discarding a wrong image fails, no page is erased before the record is lowered")
    func whileForgetting() throws {
        let (bench, position) = try open()
        bench.send(BenchRelease.image(count: 2000, seed: 1), at: position)
        bench.flash.failing = { $0.contains("write record") }
        #expect(bench.request(OTA_FINISH) == OTA_DIGEST_MISMATCH)
        let again = try #require(bench.begin(OTA_OBJECT_IMAGE, release.image, from: .max))
        #expect(again.offset == 0)
        // A page that the record still counts cannot be erased.
        bench.flash.operations = []
        bench.send(release.image, at: again, upTo: 300)
        #expect(bench.flash.operations.allSatisfy { $0.contains("record") })
        #expect(bench.progress?.status == 15)
        bench.flash.failing = nil
        bench.send(release.image, at: try #require(bench.begin(OTA_OBJECT_IMAGE, release.image, from: .max)))
        #expect(bench.request(OTA_FINISH) == OTA_OK)
    }

    @Test("DISCARD reports a failed record, and the bytes stay held")
    func whileDiscarding() throws {
        let (bench, position) = try open()
        bench.send(release.image, at: position, upTo: 600)
        bench.flash.failing = { $0.contains("record") }
        #expect(bench.request(OTA_DISCARD) == OTA_FLASH_FAILED)
        #expect(bench.state == OTA_STATE_IMAGE)
        #expect(bench.progress?.position?.offset == 600)
        bench.flash.failing = nil
        #expect(bench.request(OTA_DISCARD) == OTA_OK)
    }

    @Test("BEGIN of another image reports a failed record, and the first image stays held")
    func whileForgettingAnother() throws {
        let (bench, position) = try open()
        bench.send(release.image, at: position, upTo: 600)
        let other = BenchRelease(counter: 9)
        bench.submit(other.envelope)
        bench.flash.failing = { $0.contains("record") }
        let arguments = Bench.beginArguments(OTA_OBJECT_IMAGE, other.image)
        #expect(bench.request(OTA_BEGIN, arguments) == OTA_FLASH_FAILED)
        #expect(bench.state == OTA_STATE_ACCEPTED)
        bench.submit(release.envelope)
        #expect(bench.begin(OTA_OBJECT_IMAGE, release.image, from: .max)?.offset == 600)
    }

    @Test(
        "BEGIN reports a failed read and leaves the device in accepted",
        arguments: [OTA_STATE_ACCEPTED, OTA_STATE_IMAGE, OTA_STATE_VERIFIED])
    func whileTheCRCIsRead(_ state: ota_state) throws {
        let bench = Bench()
        bench.bring(to: OTA_STATE_VERIFIED, release)
        if state != OTA_STATE_VERIFIED { bench.submit(release.envelope) }
        if state == OTA_STATE_IMAGE { _ = bench.begin(OTA_OBJECT_IMAGE, release.image, from: .max) }
        #expect(bench.state == state)
        bench.flash.failing = { $0 == "read slot 512" }
        let arguments = Bench.beginArguments(OTA_OBJECT_IMAGE, release.image, from: .max)
        #expect(bench.request(OTA_BEGIN, arguments) == OTA_FLASH_FAILED)
        #expect(bench.state == OTA_STATE_ACCEPTED)
        #expect(bench.progress?.status == 15)
        #expect(bench.request(OTA_APPLY, [0]) == OTA_BAD_STATE)
        bench.flash.failing = nil
        #expect(bench.begin(OTA_OBJECT_IMAGE, release.image, from: .max)?.offset == 2000)
    }

    @Test("BEGIN reports a failed erase of erase-ahead, and a second BEGIN succeeds")
    func whileErasingAhead() throws {
        var settings = Settings()
        settings.eraseAhead = true
        let bench = Bench(settings)
        bench.bring(to: OTA_STATE_ACCEPTED, release)
        bench.flash.failing = { $0 == "erase slot 512" }
        let arguments = Bench.beginArguments(OTA_OBJECT_IMAGE, release.image)
        #expect(bench.request(OTA_BEGIN, arguments) == OTA_FLASH_FAILED)
        #expect(bench.state == OTA_STATE_ACCEPTED)
        bench.flash.failing = nil
        bench.flash.operations = []
        bench.send(release.image, at: try #require(bench.begin(OTA_OBJECT_IMAGE, release.image)))
        // This is a second erase of the page. Its charge is recorded first.
        #expect(bench.flash.operations.starts(with: ["write record 48", "erase slot 512"]))
        #expect(bench.request(OTA_FINISH) == OTA_OK)
        #expect(bench.flash.violations.isEmpty)
    }

    /// The newest record has lowered the offset before an erase. The record before it counts the erased page.
    @Test("if the newest record cannot be read, no older record is used")
    func theNewestRecordCannotBeRead() throws {
        let (bench, position) = try open()
        bench.send(release.image, at: position, upTo: 1100)
        let back = try #require(bench.begin(OTA_OBJECT_IMAGE, release.image, from: 512))
        bench.flash.failing = { $0 == "write slot 512" }
        bench.send(release.image, at: back, upTo: 800)
        #expect(bench.flash.records.suffix(2).map(\.offset) == [1024, 512])
        bench.flash.failing = { $0 == "read record 256" }
        #expect(bench.boot() == OTA_START_FLASH)
        bench.connect()
        #expect(info(bench, 10) == nil)
        bench.submit(release.envelope)
        let begun = try #require(bench.begin(OTA_OBJECT_IMAGE, release.image, from: .max))
        #expect(begun == Position(next: begun.next, offset: 0, crc: 0))
        bench.flash.failing = nil
        bench.send(release.image, at: begun)
        #expect(bench.request(OTA_FINISH) == OTA_OK)
        #expect(bench.flash.violations.isEmpty)
    }

    @Test("if a record cannot be read, the device holds nothing and erases both record pages")
    func recordsThatCannotBeRead() throws {
        let (bench, position) = try open()
        bench.send(release.image, at: position, upTo: 1800)
        bench.flash.failing = { $0 == "read record 0" }
        #expect(bench.boot() == OTA_START_FLASH)
        bench.flash.failing = nil
        bench.connect()
        #expect(info(bench, 10) == nil)
        bench.submit(release.envelope)
        let begun = try #require(bench.begin(OTA_OBJECT_IMAGE, release.image, from: .max))
        #expect(begun.offset == 0)
        bench.flash.operations = []
        bench.send(release.image, at: begun, upTo: 300)
        #expect(
            bench.flash.operations.filter { $0.contains("record") } == [
                "erase record 256", "erase record 0", "write record 0", "write record 48",
            ])
        bench.boot()
        bench.connect()
        bench.submit(release.envelope)
        #expect(bench.begin(OTA_OBJECT_IMAGE, release.image, from: .max)?.offset == 256)
    }
}
