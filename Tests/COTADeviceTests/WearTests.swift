import COTADevice
import Testing

/// After three BEGINs of an image at 0, or that step back, without one that was finished, each further one is busy until
/// 60 s after the last.
@Suite struct WearTests {
    private let release = Release()

    private func begin(_ bench: Bench, from: UInt32 = 0, _ release: Release? = nil) -> ota_status? {
        let release = release ?? self.release
        bench.submit(release.envelope)
        return bench.request(OTA_BEGIN, Bench.beginArguments(OTA_OBJECT_IMAGE, release.image, from: from))
    }

    private func bench() -> Bench {
        let bench = Bench()
        bench.boot()
        bench.connect()
        return bench
    }

    @Test func theFourthIsBusyFor60Seconds() {
        let bench = bench()
        for _ in 0..<3 {
            #expect(begin(bench) == OTA_OK)
            bench.pass(1000)
            bench.reconnect()
        }
        #expect(begin(bench) == OTA_BUSY)
        #expect(bench.state == OTA_STATE_ACCEPTED)
        // Asking again does not put it off.
        bench.pass(30_000)
        #expect(begin(bench) == OTA_BUSY)
        bench.pass(28_999)
        #expect(begin(bench) == OTA_BUSY)
        bench.pass(1)
        #expect(begin(bench) == OTA_OK)
        // "Each further one".
        #expect(begin(bench) == OTA_BUSY)
        bench.pass(60_000)
        #expect(begin(bench) == OTA_OK)
    }

    /// What begins at 0 counts, whatever was asked for: another release makes a resumption a fresh start.
    @Test func itIsWhereItBeginsThatCounts() {
        let bench = bench()
        let other = Release(counter: 8)
        for release in [release, other, release] {
            #expect(begin(bench, from: .max, release) == OTA_OK)
            bench.send(release.image, at: bench.progress?.position ?? Position(next: 0, offset: 0, crc: 0), upTo: 300)
        }
        #expect(begin(bench, from: .max, other) == OTA_BUSY)
        // Nothing was forgotten for it.
        #expect(begin(bench, from: .max, release) == OTA_OK)
        #expect(bench.progress?.position?.offset == 300)
        #expect(begin(bench, from: 100, release) == OTA_BUSY)
        #expect(bench.progress?.position?.offset == 0)
        #expect(begin(bench, from: 256, release) == OTA_OK)
    }

    /// A step back erases its pages anew, as often as it is asked for, and never comes to 0.
    @Test func aStepBackCountsToo() throws {
        let bench = bench()
        #expect(begin(bench) == OTA_OK)
        bench.send(release.image, at: try #require(bench.progress?.position), upTo: 512)
        for _ in 0..<2 {
            #expect(begin(bench, from: 256) == OTA_OK)
            bench.send(release.image, at: try #require(bench.progress?.position), upTo: 512)
        }
        #expect(begin(bench, from: 256) == OTA_BUSY)
        #expect(begin(bench, from: .max) == OTA_OK)
        #expect(bench.progress?.position?.offset == 512)
    }

    @Test func aFinishedOneClearsIt() throws {
        let bench = bench()
        for _ in 0..<3 { #expect(begin(bench) == OTA_OK) }
        bench.send(release.image, at: try #require(bench.progress?.position))
        #expect(bench.request(OTA_FINISH) == OTA_OK)
        for _ in 0..<3 { #expect(begin(bench) == OTA_OK) }
        #expect(begin(bench) == OTA_BUSY)
    }

    @Test func oneThatFinishedBadlyDoesNot() throws {
        let bench = bench()
        for _ in 0..<3 { #expect(begin(bench) == OTA_OK) }
        bench.send(Release.image(count: 600, seed: 5), at: try #require(bench.progress?.position))
        #expect(bench.request(OTA_FINISH) == OTA_DIGEST_DIFFERS)
        #expect(begin(bench) == OTA_BUSY)
    }

    @Test func overTheClocksWrap() {
        let bench = bench()
        for _ in 0..<3 { #expect(begin(bench) == OTA_OK) }
        bench.pass(70_000)
        bench.pass(.max - 65_000)
        #expect(begin(bench) == OTA_OK)
    }

    /// Wrong arguments are told before it.
    @Test func argumentsComeFirst() {
        let bench = bench()
        for _ in 0..<3 { #expect(begin(bench) == OTA_OK) }
        #expect(bench.request(OTA_BEGIN, Bench.beginArguments(OTA_OBJECT_IMAGE, [1, 2, 3])) == OTA_BAD_ARGUMENT)
    }
}
