import COTADevice
import Testing

/// A flash that fails, without the power going.
@Suite struct FlashFailureTests {
    private let release = Release(image: Release.image(count: 2000))

    private func open(_ edit: (inout Settings) -> Void = { _ in }) throws -> (Bench, Position) {
        var settings = Settings()
        edit(&settings)
        let bench = Bench(settings)
        bench.bring(to: OTA_STATE_ACCEPTED, release)
        return (bench, try #require(bench.begin(OTA_OBJECT_IMAGE, release.image)))
    }

    /// It leaves *image* by itself, says why, and goes on from what is in flash once the flash works again.
    @Test(arguments: [("erase slot 512", 512), ("write slot 512", 512), ("write record 96", 768)])
    func whileReceiving(_ operation: String, _ offset: Int) throws {
        let (bench, position) = try open()
        bench.send(release.image, at: position, upTo: 700)
        bench.flash.failing = { $0 == operation }
        bench.send(release.image, at: try #require(bench.progress?.position), upTo: 1400)
        #expect(bench.state == OTA_STATE_ACCEPTED)
        let told = try #require(bench.heard(OTA_PROGRESS).last)
        #expect(told.starts(with: [2, 15]))
        #expect(told[4...] == [0, 0, 0, 0, 0, 0, 0, 0])
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

    @Test(arguments: [("erase slot 512", 512), ("write slot 512", 512), ("write record 96", 512)])
    func whileReceivingAndThenAReset(_ operation: String, _ offset: Int) throws {
        let (bench, position) = try open()
        bench.flash.failing = { $0 == operation }
        bench.send(release.image, at: position, upTo: 800)
        bench.flash.failing = nil
        bench.boot()
        bench.connect()
        bench.submit(release.envelope)
        let resumed = try #require(bench.begin(OTA_OBJECT_IMAGE, release.image, from: .max))
        #expect(resumed.offset == offset)
        bench.send(release.image, at: resumed)
        #expect(bench.request(OTA_FINISH) == OTA_OK)
        #expect(bench.flash.violations.isEmpty)
    }

    @Test func whileItIsReadBack() throws {
        let (bench, position) = try open()
        bench.send(release.image, at: position)
        bench.flash.failing = { $0 == "read slot 1024" }
        #expect(bench.request(OTA_FINISH) == OTA_FLASH_FAILED)
        #expect(bench.state == OTA_STATE_ACCEPTED)
        bench.flash.failing = nil
        #expect(bench.begin(OTA_OBJECT_IMAGE, release.image, from: .max)?.offset == 2000)
        #expect(bench.request(OTA_FINISH) == OTA_OK)
    }

    @Test func aHashThatFails() throws {
        let (bench, position) = try open()
        bench.send(release.image, at: position)
        bench.hashFails = true
        #expect(bench.request(OTA_FINISH) == OTA_DIGEST_DIFFERS)
    }

    /// The digest differs and that cannot be recorded: not before a reset, and after it FINISH would see it again.
    @Test func whileForgetting() throws {
        let (bench, position) = try open()
        bench.send(Release.image(count: 2000, seed: 1), at: position)
        bench.flash.failing = { $0.contains("write record") }
        #expect(bench.request(OTA_FINISH) == OTA_DIGEST_DIFFERS)
        let again = try #require(bench.begin(OTA_OBJECT_IMAGE, release.image, from: .max))
        #expect(again.offset == 0)
        // Nor can a page be erased that the record still tells of.
        bench.flash.operations = []
        bench.send(release.image, at: again, upTo: 300)
        #expect(bench.flash.operations.allSatisfy { $0.contains("record") })
        #expect(bench.progress?.status == 15)
        bench.flash.failing = nil
        bench.send(release.image, at: try #require(bench.begin(OTA_OBJECT_IMAGE, release.image, from: .max)))
        #expect(bench.request(OTA_FINISH) == OTA_OK)
    }

    @Test func whileDiscarding() throws {
        let (bench, position) = try open()
        bench.send(release.image, at: position, upTo: 600)
        bench.flash.failing = { $0.contains("record") }
        #expect(bench.request(OTA_DISCARD) == OTA_FLASH_FAILED)
        #expect(bench.state == OTA_STATE_IMAGE)
        #expect(bench.progress?.position?.offset == 600)
        bench.flash.failing = nil
        #expect(bench.request(OTA_DISCARD) == OTA_OK)
    }

    @Test func whileForgettingAnother() throws {
        let (bench, position) = try open()
        bench.send(release.image, at: position, upTo: 600)
        let other = Release(counter: 9)
        bench.submit(other.envelope)
        bench.flash.failing = { $0.contains("record") }
        let arguments = Bench.beginArguments(OTA_OBJECT_IMAGE, other.image)
        #expect(bench.request(OTA_BEGIN, arguments) == OTA_FLASH_FAILED)
        #expect(bench.state == OTA_STATE_ACCEPTED)
        bench.submit(release.envelope)
        #expect(bench.begin(OTA_OBJECT_IMAGE, release.image, from: .max)?.offset == 600)
    }

    @Test(arguments: [OTA_STATE_ACCEPTED, OTA_STATE_IMAGE, OTA_STATE_VERIFIED])
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

    @Test func whileErasingAhead() throws {
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
        #expect(bench.flash.operations.first == "erase slot 512")
        #expect(bench.request(OTA_FINISH) == OTA_OK)
        #expect(bench.flash.violations.isEmpty)
    }

    /// A record area that cannot be read: the device works, holds nothing, and trusts no page of it afterwards.
    @Test func recordsThatCannotBeRead() throws {
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
                "erase record 256", "erase record 0", "write record 0",
            ])
        bench.boot()
        bench.connect()
        bench.submit(release.envelope)
        #expect(bench.begin(OTA_OBJECT_IMAGE, release.image, from: .max)?.offset == 256)
    }
}
