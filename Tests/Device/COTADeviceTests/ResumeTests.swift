import COTADevice
import Testing

@Suite("Resume in the device core") struct ResumeTests {
    /// 19 pages of 256 bytes, and a part of one.
    private let release = BenchRelease(image: BenchRelease.image(count: 5000))

    private func open(_ edit: (inout Settings) -> Void = { _ in }) throws -> (Bench, Position) {
        var settings = Settings()
        edit(&settings)
        let bench = Bench(settings)
        bench.bring(to: OTA_STATE_ACCEPTED, release)
        return (bench, try #require(bench.begin(OTA_OBJECT_IMAGE, release.image)))
    }

    private func resume(_ bench: Bench, from: UInt32 = .max) throws -> Position {
        #expect(bench.submit(release.envelope) == OTA_OK)
        let position = try #require(bench.begin(OTA_OBJECT_IMAGE, release.image, from: from))
        #expect(position.crc == Crypto.crc32(release.image.prefix(position.offset)))
        return position
    }

    private func finish(_ bench: Bench, _ position: Position) {
        bench.send(release.image, at: position)
        #expect(bench.request(OTA_FINISH) == OTA_OK)
        #expect(bench.flash.slot.prefix(5000) == release.image[...])
        #expect(bench.flash.violations.isEmpty)
    }

    /// BEGIN erases nothing. The charge of the round is recorded before its first erase.
    @Test("each page is erased, written and recorded, in this order")
    func theOrderOfOperations() throws {
        let (bench, position) = try open()
        #expect(bench.flash.operations.isEmpty)
        bench.send(release.image, at: position, upTo: 255)
        #expect(bench.flash.operations.isEmpty)
        bench.write(data: little(position.next &+ 2) + [release.image[255]])
        // This is the first record, and the core does not know whether the record pages are blank.
        #expect(
            bench.flash.operations == [
                "erase record 256", "erase record 0", "write record 0", "erase slot 0", "write slot 0",
                "write record 48",
            ])
        bench.flash.operations = []
        bench.send(release.image, at: try #require(bench.progress?.position), upTo: 512)
        #expect(bench.flash.operations == ["erase slot 256", "write slot 256", "write record 96"])
    }

    @Test("the last bytes of an image are padded to the write unit")
    func theLastBytesArePaddedToTheWriteUnit() throws {
        for unit in [1, 2, 4, 8, 16, 32, 64] as [UInt8] {
            let (bench, position) = try open { $0.writeUnit = unit }
            finish(bench, position)
            let end = (5000 + Int(unit) - 1) / Int(unit) * Int(unit)
            #expect(bench.flash.slot[5000..<end].allSatisfy { $0 == 0xFF })
            #expect(bench.flash.slot[5120] == 0x5A)
            // Records are also padded: 48 bytes, or 64 with this write unit.
            if unit > 16 { #expect(bench.flash.record[48..<64].allSatisfy { $0 == 0xFF }) }
        }
    }

    @Test(
        "after a disconnection the device resumes from the last received byte",
        arguments: [1, 255, 256, 257, 484, 1000, 4999, 5000])
    func afterADisconnectionAllOfItIsThere(_ offset: Int) throws {
        let (bench, position) = try open()
        bench.send(release.image, at: position, upTo: offset)
        bench.reconnect()
        let resumed = try resume(bench)
        #expect(resumed.offset == offset)
        finish(bench, resumed)
    }

    @Test(
        "after a reset the device resumes from the last recorded page",
        arguments: [1, 255, 256, 257, 484, 1000, 4999, 5000])
    func afterAResetAllThatIsRecordedIsThere(_ offset: Int) throws {
        let (bench, position) = try open()
        bench.send(release.image, at: position, upTo: offset)
        bench.boot()
        bench.connect()
        let resumed = try resume(bench)
        #expect(resumed.offset == (offset == 5000 ? 5000 : offset / 256 * 256))
        finish(bench, resumed)
    }

    /// The last page start is 1024, and the page buffer contains the bytes up to 1200.
    @Test(
        "a step back goes to the exact offset within the page buffer, otherwise to a page start",
        arguments: [
            (0, 0), (1, 0), (255, 0), (256, 256), (999, 768), (1000, 768), (1024, 1024), (1100, 1100), (1200, 1200),
        ])
    func aStepBack(_ from: UInt32, _ offset: Int) throws {
        let (bench, position) = try open()
        bench.send(release.image, at: position, upTo: 1200)
        #expect(bench.progress?.position?.offset == 1200)
        let resumed = try resume(bench, from: from)
        #expect(resumed.offset == offset)
        finish(bench, resumed)
    }

    @Test("a step back from the end of the image goes to the start of its last page")
    func aStepBackFromTheEnd() throws {
        let (bench, position) = try open()
        bench.send(release.image, at: position)
        let resumed = try resume(bench, from: 4999)
        #expect(resumed.offset == 4864)
        finish(bench, resumed)
    }

    @Test("a step back loses nothing before an erase, and the record is lowered before the erase")
    func aStepBackIsRecordedBeforeItErases() throws {
        let (bench, position) = try open()
        bench.send(release.image, at: position, upTo: 1200)
        bench.flash.operations = []
        var resumed = try resume(bench, from: 600)
        #expect(resumed.offset == 512)
        #expect(bench.flash.operations.isEmpty)
        bench.boot()
        bench.connect()
        resumed = try resume(bench, from: 600)
        bench.flash.operations = []
        bench.send(release.image, at: resumed, upTo: 768)
        // A record page has five records: the charge of the round and four pages. The record of the start is in the other page.
        #expect(
            bench.flash.operations == ["write record 304", "erase slot 512", "write slot 512", "write record 352"])
    }

    @Test("BEGIN of another image discards the first image durably")
    func anotherImageForgetsTheFirstBeforeItErases() throws {
        let (bench, position) = try open()
        bench.send(release.image, at: position, upTo: 1200)
        bench.reconnect()
        let other = BenchRelease(image: BenchRelease.image(count: 3000, seed: 3))
        bench.submit(other.envelope)
        #expect(bench.begin(OTA_OBJECT_IMAGE, other.image, from: .max)?.offset == 0)
        // The discard is durable before any erase: the reset follows at once.
        bench.boot()
        bench.connect()
        #expect(info(bench, 10) == nil)
        #expect(try resume(bench).offset == 0)
    }

    /// The digest of the manifest identifies the release.
    @Test("the same image in another release is not resumed")
    func theSameImageInAnotherRelease() throws {
        let (bench, position) = try open()
        bench.send(release.image, at: position, upTo: 1200)
        let other = BenchRelease(image: release.image, counter: 8)
        bench.submit(other.envelope)
        #expect(bench.begin(OTA_OBJECT_IMAGE, other.image, from: .max)?.offset == 0)
    }

    @Test("DISCARD discards the held bytes durably")
    func discardForgets() throws {
        let (bench, position) = try open()
        bench.send(release.image, at: position, upTo: 1200)
        bench.flash.operations = []
        #expect(bench.request(OTA_DISCARD) == OTA_OK)
        // The sixth record is the first one in the other page.
        #expect(bench.flash.operations == ["erase record 256", "write record 256"])
        #expect(try resume(bench).offset == 0)
        bench.boot()
        bench.connect()
        #expect(try resume(bench).offset == 0)
    }

    /// CONFIRM has made the image permanent, but its record could not be discarded. The slot contains the previous image.
    @Test("the running image is not held, although its record still exists")
    func theRunningImageIsNotHeld() throws {
        let bench = Bench()
        bench.bring(to: OTA_STATE_VERIFIED, release)
        #expect(bench.request(OTA_APPLY, [0]) == OTA_OK)
        bench.settings.runningDigest = release.digest
        bench.settings.onTrial = true
        bench.boot()
        bench.connect()
        bench.flash.failing = { $0.contains("record") }
        #expect(bench.request(OTA_CONFIRM) == OTA_OK)
        bench.flash.failing = nil

        bench.settings.onTrial = false
        bench.boot()
        bench.connect()
        #expect(info(bench, 10) == nil)
        #expect(try resume(bench).offset == 0)
    }

    @Test("DISCARD without recorded bytes writes nothing to flash")
    func discardOfNothingWearsNothing() throws {
        let (bench, position) = try open()
        bench.send(release.image, at: position, upTo: 200)
        for _ in 0..<10 { #expect(bench.request(OTA_DISCARD) == OTA_OK) }
        #expect(bench.flash.operations.isEmpty)
        #expect(try resume(bench).offset == 0)
    }

    @Test("after a permanent APPLY the image is not held")
    func anAppliedImageIsNotHeldAnyMore() throws {
        let (bench, position) = try open { $0.permanentAllowed = true }
        finish(bench, position)
        #expect(bench.request(OTA_APPLY, [1]) == OTA_OK)
        bench.disconnect()
        bench.boot()
        bench.connect()
        #expect(info(bench, 10) == nil)
        #expect(try resume(bench).offset == 0)
    }

    /// The record could not be discarded after the mark. The slot may contain the old image.
    @Test("a record of the running image is ignored after a failed discard")
    func aRecordOfTheRunningImageIsNotBelieved() throws {
        let (bench, position) = try open()
        finish(bench, position)
        bench.flash.failing = { $0.contains("record") }
        #expect(bench.request(OTA_APPLY, [0]) == OTA_OK)
        bench.flash.failing = nil
        bench.settings.onTrial = true
        bench.settings.runningDigest = release.digest
        bench.boot()
        bench.connect()
        #expect(info(bench, 10) == nil)
        #expect(bench.request(OTA_CONFIRM) == OTA_OK)
        #expect(try resume(bench).offset == 0)
        // CONFIRM discarded the record durably.
        bench.settings.onTrial = false
        bench.settings.runningDigest = nil
        bench.boot()
        bench.connect()
        #expect(try resume(bench).offset == 0)
    }

    @Test("a verified image is resumed at its end after a reset")
    func verifiedImagesAreResumedToo() throws {
        let (bench, position) = try open()
        finish(bench, position)
        bench.boot()
        bench.connect()
        let resumed = try resume(bench)
        #expect(resumed.offset == 5000)
        finish(bench, resumed)
    }

    /// BEGIN computes the CRC from the flash.
    @Test("a byte that changed in flash changes the CRC, and FINISH refuses the image")
    func aByteThatChangedInFlash() throws {
        let (bench, position) = try open()
        bench.send(release.image, at: position, upTo: 2560)
        bench.boot()
        bench.flash.slot[700] ^= 0x10
        bench.connect()
        bench.submit(release.envelope)
        let resumed = try #require(bench.begin(OTA_OBJECT_IMAGE, release.image, from: .max))
        #expect(resumed.crc == Crypto.crc32(bench.flash.slot.prefix(2560)))
        #expect(resumed.crc != Crypto.crc32(release.image.prefix(2560)))
        bench.send(release.image, at: resumed)
        #expect(bench.request(OTA_FINISH) == OTA_DIGEST_MISMATCH)
    }

    /// The new firmware was built with another page size.
    @Test("a record of another page size is rounded down to a whole page")
    func anotherPageSize() throws {
        let (bench, position) = try open()
        bench.send(release.image, at: position, upTo: 1280)
        bench.settings.pageSize = 512
        let record = bench.flash.record
        bench.flash = {
            var flash = Flash(pageSize: 512, slotSize: 16384, writeUnit: 4)
            flash.slot = bench.flash.slot
            flash.record.replaceSubrange(0..<256, with: record[..<256])
            return flash
        }()
        bench.boot()
        bench.connect()
        let resumed = try resume(bench)
        #expect(resumed.offset == 1024)
        finish(bench, resumed)
    }

    @Test("with erase-ahead BEGIN erases each page once, and again after a step back")
    func eraseAhead() throws {
        let (bench, position) = try open {
            $0.eraseAhead = true
            $0.eraseStep = 3
        }
        let charge = ["erase record 256", "erase record 0", "write record 0"]
        #expect(bench.flash.operations == charge + (0..<20).map { "erase slot \($0 * 256)" })
        bench.flash.operations = []
        bench.send(release.image, at: position, upTo: 1100)
        #expect(bench.flash.operations.filter { $0.contains("slot") } == (0..<4).map { "write slot \($0 * 256)" })

        // Erased pages are not erased again. After a step back all following pages are erased again.
        bench.flash.operations = []
        #expect(try resume(bench).offset == 1100)
        #expect(bench.flash.operations.isEmpty)
        #expect(try resume(bench, from: 600).offset == 512)
        #expect(bench.flash.operations.filter { $0.contains("slot") } == (2..<20).map { "erase slot \($0 * 256)" })
        let resumed = try resume(bench)
        finish(bench, resumed)
    }

    @Test("with erase-ahead a complete image of whole pages erases nothing on resume")
    func eraseAheadOfWholePages() throws {
        var settings = Settings()
        settings.eraseAhead = true
        let bench = Bench(settings)
        let whole = BenchRelease(image: BenchRelease.image(count: 1024))
        bench.bring(to: OTA_STATE_ACCEPTED, whole)
        let position = try #require(bench.begin(OTA_OBJECT_IMAGE, whole.image))
        let charge = ["erase record 256", "erase record 0", "write record 0"]
        #expect(bench.flash.operations == charge + (0..<4).map { "erase slot \($0 * 256)" })
        bench.send(whole.image, at: position)
        #expect(bench.request(OTA_FINISH) == OTA_OK)
        // The device holds the whole image, so that no page must be erased.
        bench.reconnect()
        bench.submit(whole.envelope)
        bench.flash.operations = []
        #expect(bench.begin(OTA_OBJECT_IMAGE, whole.image, from: .max)?.offset == 1024)
        #expect(bench.flash.operations.isEmpty)
    }

    @Test("erase-ahead erases at most eraseStep pages in one poll, and a disconnection stops it")
    func eraseAheadInSteps() throws {
        var settings = Settings()
        settings.eraseAhead = true
        settings.eraseStep = 3
        let bench = Bench(settings)
        bench.bring(to: OTA_STATE_ACCEPTED, release)
        let request: [UInt8] = [1, 1] + Bench.beginArguments(OTA_OBJECT_IMAGE, release.image)
        ota_device_write_control(bench.device, 1, request, UInt16(request.count), bench.now)
        var erasures: [Int] = []
        while bench.notifications.isEmpty && erasures.count < 100 {
            bench.flash.operations = []
            _ = ota_device_poll(bench.device, bench.now)
            erasures.append(bench.flash.operations.count { $0.contains("slot") })
        }
        #expect(erasures == [0, 3, 3, 3, 3, 3, 3, 2])

        // A disconnection stops the erases.
        bench.reconnect()
        bench.submit(release.envelope)
        bench.request(OTA_DISCARD)
        bench.submit(release.envelope)
        ota_device_write_control(bench.device, 1, request, UInt16(request.count), bench.now)
        for _ in 0..<3 { _ = ota_device_poll(bench.device, bench.now) }
        bench.flash.operations = []
        bench.disconnect()
        #expect(bench.flash.operations.isEmpty)
        bench.connect()
        let resumed = try resume(bench)
        finish(bench, resumed)
    }

    @Test("an image is received with any valid page size", arguments: [256, 300, 1000, 4096, 65536] as [UInt32])
    func pageSizes(_ size: UInt32) throws {
        let (bench, position) = try open {
            $0.pageSize = size
            $0.slotSize = 4 * size > 16384 ? 2 * size : 65 * size
            $0.largestImage = $0.slotSize
        }
        finish(bench, position)
    }

    @Test("an image of the size of the slot is verified")
    func anImageOfAllTheSlot() throws {
        let whole = BenchRelease(image: BenchRelease.image(count: 16384))
        let bench = Bench()
        bench.bring(to: OTA_STATE_VERIFIED, whole)
        #expect(bench.state == OTA_STATE_VERIFIED)
        #expect(bench.flash.slot == whole.image)
        #expect(bench.flash.violations.isEmpty)
    }
}
