import COTADevice
import Testing

/// The power is cut before or during each flash operation. Afterwards the device holds exactly the recorded bytes, each of
/// them is correct, and the update succeeds. The pages are small, so that each record page is filled several times.
@Suite("Power cuts at every flash operation") struct ExhaustivePowerCutTests {
    @Test(
        "after a power cut at any flash operation the device resumes from its record and completes the update",
        arguments: Story.allCases, Flash.Cut.allCases)
    func everyOperation(_ story: Story, _ cut: Flash.Cut) {
        var operation = 0
        while true {
            let bench = story.play(cutting: operation, cut)
            guard !bench.flash.hasPower else { break }
            #expect(bench.flash.violations.isEmpty)
            for release in [Story.first, Story.second, Story.large] {
                let recovery = Recovery(bench.flash, release)
                #expect(recovery.findings.isEmpty, "\(story), \(cut) operation \(operation)")
            }
            operation += 1
        }
        // The two record pages have five records each. Each story fills both more than once.
        #expect(operation > 30)
    }
}

/// A sequence of requests of an update, up to APPLY.
enum Story: CaseIterable {
    case plain, stepBack, reconnections, anotherRelease, discarded, eraseAhead, largeImage

    static let first = BenchRelease(image: BenchRelease.image(count: 3333))
    static let second = BenchRelease(image: BenchRelease.image(count: 3000, seed: 7), counter: 8)
    /// 24 pages. Every second page has a record.
    static let large = BenchRelease(image: BenchRelease.image(count: 6000, seed: 9), counter: 9)

    /// Runs the story on a new device, with a power cut at one flash operation.
    func play(cutting operation: Int, _ cut: Flash.Cut) -> Bench {
        var settings = Settings()
        settings.eraseAhead = self == .eraseAhead
        settings.eraseStep = 4
        settings.permanentAllowed = true
        let bench = Bench(settings)
        bench.boot()
        bench.flash.operationsLeft = operation
        bench.flash.cut = cut
        bench.connect()
        play(on: bench)
        return bench
    }

    private func play(on bench: Bench) {
        switch self {
        case .plain, .eraseAhead:
            Self.send(bench, Self.first)
        case .stepBack:
            Self.send(bench, Self.first, upTo: 2000)
            Self.send(bench, Self.first, from: 700, upTo: 1800)
            Self.send(bench, Self.first, from: 0)
        case .reconnections:
            for offset in stride(from: 300, to: 3300, by: 500) {
                Self.send(bench, Self.first, from: .max, upTo: offset)
                bench.reconnect()
            }
            Self.send(bench, Self.first, from: .max)
        case .anotherRelease:
            Self.send(bench, Self.first, upTo: 2000)
            Self.send(bench, Self.second, from: .max, upTo: 1500)
            Self.send(bench, Self.first, from: .max)
        case .largeImage:
            Self.send(bench, Self.large, upTo: 4000)
            Self.send(bench, Self.large, from: 1900, upTo: 3400)
            Self.send(bench, Self.large, from: .max)
        case .discarded:
            Self.send(bench, Self.first, upTo: 2000)
            bench.request(OTA_DISCARD)
            Self.send(bench, Self.first, from: .max)
        }
    }

    /// Sends the image of a release. A complete image is followed by FINISH and APPLY. Does nothing without power.
    static func send(_ bench: Bench, _ release: BenchRelease, from: UInt32 = 0, upTo end: Int? = nil) {
        guard bench.submit(release.envelope) == OTA_OK,
            let position = bench.begin(OTA_OBJECT_IMAGE, release.image, from: from)
        else { return }
        bench.send(release.image, at: position, upTo: end)
        if end == nil, bench.request(OTA_FINISH) == OTA_OK { bench.request(OTA_APPLY, [1]) }
    }
}

/// Starts the device again and resumes the update of a release.
struct Recovery {
    /// The violations.
    var findings: [String] = []
    let bench = Bench()

    init(_ flash: Flash, _ release: BenchRelease, cutting operation: Int = .max, _ cut: Flash.Cut = .before) {
        bench.flash = flash
        bench.flash.tornRecord = nil
        check(bench.boot(cutting: operation, cut) == OTA_START_OK, "the core does not start")
        // The power may be cut while the start appends its record.
        guard bench.flash.hasPower else { return }
        bench.connect()
        check(bench.submit(release.envelope) == OTA_OK, "the envelope is refused")
        guard let position = bench.begin(OTA_OBJECT_IMAGE, release.image, from: .max) else {
            check(!bench.flash.hasPower, "BEGIN is refused")
            return
        }
        // The last record, or the record whose write the power cut interrupted.
        let possible = [flash.records.last, flash.tornRecord ?? flash.records.last]
            .map { $0?.digest == release.digest ? $0?.offset : 0 }
        check(possible.contains(position.offset), "it resumes at \(position.offset)")
        check(position.crc == Crypto.crc32(release.image.prefix(position.offset)), "a wrong byte is held")
        bench.send(release.image, at: position)
        let status = bench.request(OTA_FINISH)
        guard bench.flash.hasPower else { return }
        check(status == OTA_OK, "FINISH: \(String(describing: status))")
        check(bench.flash.slot.starts(with: release.image), "the slot contains other bytes")
        let isApplied = bench.request(OTA_APPLY, [0]) == OTA_OK
        check(isApplied || !bench.flash.hasPower, "APPLY is refused")
        check(bench.flash.violations.isEmpty, "\(bench.flash.violations)")
    }

    private mutating func check(_ holds: Bool, _ finding: String) { if !holds { findings.append(finding) } }
}
