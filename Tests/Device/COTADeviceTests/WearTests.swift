import COTADevice
import Testing

/// Each page of the slot may be erased 40 times, then once in 15 minutes. An APPLY counts as four erases: two for the
/// bootloader's swap, and two for the swap back.
@Suite("Wear limit of the device core") struct WearTests {
    private let release = BenchRelease()
    /// BEGIN leaves the last four of 40 erases for the APPLY that follows.
    private let roundsAtOnce = 36

    private func bench(_ edit: (inout Settings) -> Void = { _ in }) -> Bench {
        var settings = Settings()
        edit(&settings)
        let bench = Bench(settings)
        bench.boot()
        bench.connect()
        return bench
    }

    private func begin(_ bench: Bench, from: UInt32 = 0, _ release: BenchRelease? = nil) -> ota_status? {
        let release = release ?? self.release
        bench.submit(release.envelope)
        return bench.request(OTA_BEGIN, Bench.beginArguments(OTA_OBJECT_IMAGE, release.image, from: from))
    }

    /// Sends the image from its start to `end`. Returns false if BEGIN is answered with *busy*.
    private func send(_ bench: Bench, upTo end: Int? = 256) -> Bool {
        guard begin(bench) == OTA_OK, let position = bench.progress?.position else { return false }
        bench.send(release.image, at: position, upTo: end)
        return true
    }

    /// Sends the image until BEGIN is answered with *busy*. Returns the number of erases of the first page.
    private func exhaust(_ bench: Bench, upTo end: Int? = 256) -> Int {
        bench.flash.operations = []
        for _ in 0..<200 {
            guard send(bench, upTo: end) else { break }
            if end == nil { #expect(bench.request(OTA_FINISH) == OTA_OK) }
        }
        return bench.flash.operations.count { $0 == "erase slot 0" }
    }

    @Test("a page is erased 36 times at once, then once for every 15 minutes")
    func erasesOverTime() {
        let bench = bench()
        #expect(exhaust(bench) == roundsAtOnce)
        #expect(bench.state == OTA_STATE_ACCEPTED)
        // Another BEGIN does not extend the time.
        bench.pass(899_999)
        #expect(begin(bench) == OTA_BUSY)
        bench.pass(1)
        #expect(exhaust(bench) == 1)
        bench.pass(10 * 900_000)
        #expect(exhaust(bench) == 10)
        // The count does not fall below 0.
        bench.pass(1000 * 900_000)
        #expect(exhaust(bench) == roundsAtOnce)
    }

    @Test("an image that was verified does not reset the wear limit")
    func finishResetsNothing() { #expect(exhaust(bench(), upTo: nil) == roundsAtOnce) }

    @Test("a BEGIN without an erase does not count, and neither does a resume")
    func onlyErasesCount() throws {
        let bench = bench()
        for _ in 0..<500 { #expect(begin(bench) == OTA_OK) }
        for end in stride(from: 50, to: 600, by: 50) {
            #expect(begin(bench, from: .max) == OTA_OK)
            bench.send(release.image, at: try #require(bench.progress?.position), upTo: end)
            bench.reconnect()
        }
        #expect(exhaust(bench) == roundsAtOnce - 1)
    }

    @Test("each step back that erases pages again counts as one erase")
    func rewinds() throws {
        let bench = bench()
        #expect(send(bench, upTo: 512))
        for step in 1..<roundsAtOnce {
            #expect(begin(bench, from: 256) == OTA_OK, "step \(step)")
            bench.send(release.image, at: try #require(bench.progress?.position), upTo: 512)
        }
        #expect(begin(bench, from: 256) == OTA_BUSY)
        #expect(begin(bench) == OTA_BUSY)
        #expect(begin(bench, from: .max) == OTA_OK)
        #expect(bench.progress?.position?.offset == 512)
        #expect(bench.flash.operations.count { $0 == "erase slot 256" } == roundsAtOnce)
    }

    @Test("a BEGIN of another release that is refused at the wear limit keeps the held image")
    func anotherRelease() throws {
        let bench = bench()
        #expect(exhaust(bench, upTo: 512) == roundsAtOnce)
        #expect(begin(bench, from: .max, BenchRelease(counter: 8)) == OTA_BUSY)
        #expect(begin(bench, from: .max) == OTA_OK)
        #expect(bench.progress?.position?.offset == 512)
    }

    @Test("erasing ahead counts once for each time the pages are erased")
    func eraseAhead() {
        let bench = bench { $0.eraseAhead = true }
        #expect(begin(bench) == OTA_OK)
        // No page is written yet, so that all pages are still erased.
        for _ in 0..<200 { #expect(begin(bench) == OTA_OK) }
        let charge = ["erase record 256", "erase record 0", "write record 0"]
        #expect(bench.flash.operations == charge + ["erase slot 0", "erase slot 256", "erase slot 512"])
        #expect(exhaust(bench) == roundsAtOnce - 1)
    }

    @Test("at the wear limit a started transfer can be completed, verified and applied")
    func atTheLimit() throws {
        let bench = bench()
        #expect(exhaust(bench) == roundsAtOnce)
        bench.reconnect()
        #expect(begin(bench, from: .max) == OTA_OK)
        bench.send(release.image, at: try #require(bench.progress?.position))
        #expect(bench.request(OTA_FINISH) == OTA_OK)
        #expect(bench.request(OTA_APPLY, [0]) == OTA_OK)
        #expect(bench.log == ["mark"])
    }

    @Test("the APPLY of an image that was sent before a restart leaves room for another image")
    func roomForAnotherImage() throws {
        let bench = bench()
        #expect(exhaust(bench, upTo: nil) == roundsAtOnce)
        bench.boot()
        bench.connect()
        bench.pass(900_000)
        #expect(begin(bench, from: .max) == OTA_OK)
        #expect(bench.request(OTA_FINISH) == OTA_OK)
        #expect(bench.request(OTA_APPLY, [0]) == OTA_BUSY)
        #expect(begin(bench, from: .max, BenchRelease(counter: 8)) == OTA_OK)
    }

    @Test("a time before the last one does not reduce the wear")
    func timeOutOfOrder() {
        let bench = bench()
        #expect(exhaust(bench) == roundsAtOnce)
        bench.now -= 1
        #expect(begin(bench) == OTA_BUSY)
    }

    @Test("a page whose write always fails is erased only up to the wear limit")
    func aFlashThatFails() {
        let bench = bench()
        bench.flash.failing = { $0 == "write slot 0" }
        #expect(exhaust(bench) == roundsAtOnce)
    }

    /// Repeats an update and its trial. The trial ends by DISCARD, or by itself; then the image is not sent again.
    /// - Returns: The number of trials until a request is answered with *busy*.
    private func trials(discarding: Bool) throws -> (count: Int, refused: String) {
        let bench = bench()
        for trial in 0..<1000 {
            guard begin(bench, from: .max) == OTA_OK else { return (trial, "BEGIN") }
            bench.send(release.image, at: try #require(bench.progress?.position))
            #expect(bench.request(OTA_FINISH) == OTA_OK)
            guard bench.request(OTA_APPLY, [0]) == OTA_OK else { return (trial, "APPLY") }
            #expect(bench.marks.count == trial + 1)
            bench.disconnect()
            bench.settings.onTrial = true
            bench.boot()
            bench.connect()
            if discarding { #expect(bench.request(OTA_DISCARD) == OTA_OK) } else { bench.pass(60_000) }
            bench.disconnect()
            bench.settings.onTrial = false
            bench.boot()
            bench.connect()
        }
        return (1000, "nothing")
    }

    /// The limit is 320 points. An erase adds 8 points, and a boot removes one.
    @Test("trials that are discarded or not confirmed are limited, across their reboots")
    func trialCycles() throws {
        let discarded = try trials(discarding: true)
        #expect(discarded.refused == "BEGIN")
        #expect(discarded.count == 1 + (320 - 40) / (40 - 1))
        let ended = try trials(discarding: false)
        #expect(ended.refused == "APPLY")
        // The image is sent once. Each later trial must leave room for a whole update.
        #expect(ended.count == 2 + (320 - (40 - 1) - (32 + 8 + 32)) / (32 - 1))
    }

    @Test("each boot reduces the wear by an eighth of an erase")
    func restarts() {
        let bench = bench()
        #expect(exhaust(bench) == roundsAtOnce)
        for boot in 1...8 {
            #expect(begin(bench) == OTA_BUSY, "boot \(boot)")
            bench.boot()
            bench.connect()
        }
        #expect(begin(bench) == OTA_OK)
    }

    /// Repeats this: a host resumes, and the power is cut right after an erase of the slot.
    /// - Returns: The number of erases of the page that was erased most often.
    private func erases(ofBoots boots: Int, holding pages: Int, _ edit: (inout Settings) -> Void) throws -> Int {
        let bench = bench(edit)
        if pages > 0 { #expect(send(bench, upTo: 256 * pages)) }
        bench.flash.cutAfterErase = { $0.hasPrefix("erase slot") }
        for _ in 0..<boots {
            bench.boot()
            bench.connect()
            guard begin(bench, from: .max) == OTA_OK else { continue }
            bench.send(release.image, at: try #require(bench.progress?.position))
        }
        let erases = bench.flash.operations.filter { $0.hasPrefix("erase slot") }
        return Dictionary(grouping: erases) { $0 }.values.map(\.count).max() ?? 0
    }

    @Test(
        "a reset right after the first erase of a round does not lose its charge", arguments: [false, true])
    func resetsAfterTheFirstErase(_ eraseAhead: Bool) throws {
        let count = try erases(ofBoots: 1000, holding: 0) { $0.eraseAhead = eraseAhead }
        #expect(count >= roundsAtOnce)
        #expect(count <= roundsAtOnce + 1000 / 8)
    }

    @Test("a reset right after the erase of a later page does not lose its charge", arguments: [false, true], [1, 2])
    func resetsAfterALaterErase(_ eraseAhead: Bool, _ pages: Int) throws {
        let count = try erases(ofBoots: 1000, holding: pages) { $0.eraseAhead = eraseAhead }
        #expect(count >= roundsAtOnce - 1)
        #expect(count <= roundsAtOnce + 1000 / 8)
    }

    @Test("at the wear limit a restarted device accepts a BEGIN that erases nothing, and refuses one that does")
    func atTheLimitAfterARestart() throws {
        let bench = bench()
        #expect(exhaust(bench, upTo: 512) == roundsAtOnce)
        bench.boot()
        bench.connect()
        #expect(begin(bench, from: .max) == OTA_BUSY)
        // Seven eighths of an erase. The boot has removed the first eighth.
        bench.pass(7 * 900_000 / 8)
        #expect(begin(bench, from: .max) == OTA_OK)
        bench.send(release.image, at: try #require(bench.progress?.position))
        #expect(bench.request(OTA_FINISH) == OTA_OK)
        #expect(bench.request(OTA_APPLY, [0]) == OTA_OK)
        bench.disconnect()
        bench.boot()
        bench.connect()
        #expect(begin(bench, from: .max) == OTA_OK)
        #expect(bench.progress?.position?.offset == 600)
    }

    @Test("a record that cannot be read does not reset the wear limit", arguments: [0, 48, 96, 144, 192, 256, 304])
    func anUnreadableRecord(_ place: Int) {
        let bench = bench()
        bench.now = 100_000_000
        bench.boot()
        bench.connect()
        #expect(exhaust(bench) == roundsAtOnce)
        bench.flash.failing = { $0 == "read record \(place)" }
        for _ in 0..<20 { #expect(bench.boot() == OTA_START_FLASH) }
        bench.flash.failing = nil
        bench.connect()
        #expect(begin(bench) == OTA_BUSY)
        bench.pass(900_000)
        #expect(exhaust(bench) == 1)
    }

    @Test("a boot appends a record only while the wear is above 0")
    func recordsOfBoots() {
        let bench = bench()
        bench.flash.operations = []
        bench.boot()
        #expect(bench.flash.operations.isEmpty)
        bench.connect()
        #expect(send(bench))
        for _ in 0..<20 { bench.boot() }
        bench.flash.operations = []
        bench.boot()
        #expect(bench.flash.operations.isEmpty)
        #expect(bench.flash.violations.isEmpty)
        bench.connect()
        #expect(begin(bench, from: .max) == OTA_OK)
        #expect(bench.progress?.position?.offset == 256)
    }

    @Test("the configuration sets the minutes for each erase, or no limit")
    func configured() {
        let quick = bench { $0.wearMinutes = 1 }
        #expect(exhaust(quick) == roundsAtOnce)
        quick.pass(59_999)
        #expect(begin(quick) == OTA_BUSY)
        quick.pass(1)
        #expect(begin(quick) == OTA_OK)
        #expect(exhaust(bench { $0.wearMinutes = UInt8(OTA_WEAR_UNLIMITED) }) == 200)
    }

    @Test("the wear decreases although the clock wraps")
    func overTheClocksWrap() {
        let bench = Bench()
        bench.now = .max - 100_000
        bench.boot()
        bench.connect()
        #expect(exhaust(bench) == roundsAtOnce)
        bench.pass(899_999)
        #expect(begin(bench) == OTA_BUSY)
        bench.pass(1)
        #expect(begin(bench) == OTA_OK)
    }

    @Test("the arguments of BEGIN are checked before the wear limit")
    func argumentsComeFirst() {
        let bench = bench()
        _ = exhaust(bench)
        #expect(bench.request(OTA_BEGIN, Bench.beginArguments(OTA_OBJECT_IMAGE, [1, 2, 3])) == OTA_BAD_ARGUMENT)
    }

    /// An earlier core wrote records that start with "OTR1".
    @Test("records of an earlier core are ignored, and erased before the first new record")
    func recordsOfAnEarlierCore() throws {
        let bench = bench()
        var record = Array("OTR1".utf8) + little(UInt32(9)) + release.digest + little(UInt32(512))
        record += little(Crypto.crc32(record))
        bench.flash.record.replaceSubrange(0..<48, with: record)
        #expect(bench.boot() == OTA_START_OK)
        bench.connect()
        #expect(info(bench, 10) == nil)
        bench.flash.operations = []
        #expect(send(bench))
        #expect(
            bench.flash.operations.filter { $0.contains("record") } == [
                "erase record 256", "erase record 0", "write record 0", "write record 48",
            ])
    }
}
