import Gauntlet
import OTAProfile
import OTASimulator
import OTAUpdate
import Testing

/// Compares the time of encoded and plain transfers of 512 KiB in virtual time (docs/performance.md).
@Suite("Speed of encoded updates over the OTA profile") struct ExhaustiveEncodedSpeedTests {
    private static let count = 512 * 1024
    /// A small fix, which encodes to at most 5 %.
    private let fix: EncodedRelease
    private let withoutBase: EncodedRelease

    init() throws {
        fix = try EncodedRelease(bytes: Self.count, changes: 1500)
        withoutBase = try EncodedRelease(bytes: Self.count, knowsBase: false)
    }

    private func radio(_ interval: Int, _ perEvent: Int) -> RadioModel {
        var radio = RadioModel()
        radio.interval = .milliseconds(interval)
        radio.perEvent = perEvent
        return radio
    }

    /// - Parameter flash: the speed of the device's flash, in bytes per second.
    private func transfer(
        _ release: EncodedRelease, _ radio: RadioModel, flash: Int? = nil, isPlain: Bool = false
    ) throws -> TransferReport {
        let world = try release.world(radio: radio) { $0.flashSpeed = flash }
        let run = try world.run([release.push()], encoders: [isPlain ? nil : release.encoder])[0]
        let report = try #require(run.report)
        #expect(report.outcome == .confirmed && world.runsNewImage)
        let transfer = try #require(report.transfer)
        #expect((transfer.encoding == .plain) == isPlain && transfer.resentBytes == 0)
        return transfer
    }

    @Test("a fix of at most 5 % is sent 15 times faster than the plain image, and compression is 1.55 times faster")
    func slowLink() throws {
        let radio = radio(50, 2)
        let plain = try transfer(fix, radio, isPlain: true)
        let delta = try transfer(fix, radio)
        #expect(delta.sentBytes <= Self.count / 20)
        #expect(plain.duration / delta.duration >= 15, "\(plain.duration) \(delta.duration) \(delta.sentBytes)")
        let compressed = try transfer(withoutBase, radio)
        #expect(plain.duration / compressed.duration >= 1.55, "\(compressed.duration) \(compressed.sentBytes)")
    }

    @Test("with a flash of 32 kB/s a fix is sent 3 times faster over a slow link, and not slower over a fast link")
    func slowFlash() throws {
        for (radio, least) in [(radio(50, 2), 3.0), (radio(15, 6), 0.98)] {
            let plain = try transfer(fix, radio, flash: 32_000, isPlain: true)
            let delta = try transfer(fix, radio, flash: 32_000)
            #expect(plain.duration / delta.duration >= least, "\(plain.duration) \(delta.duration)")
        }
    }

    @Test("a compressed image reaches 97 % of the bound of the link", arguments: [(15, 2), (15, 6), (30, 4), (50, 2)])
    func efficiency(interval: Int, perEvent: Int) throws {
        let radio = radio(interval, perEvent)
        let transfer = try transfer(withoutBase, radio)
        let rate = try #require(transfer.linkBytesPerSecond)
        let efficiency = rate / radio.bytesPerSecondBound(valueLength: transfer.chunkSize)
        #expect(efficiency >= 0.97 && efficiency <= 1)
    }
}
