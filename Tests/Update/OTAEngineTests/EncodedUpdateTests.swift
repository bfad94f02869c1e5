import Gauntlet
import OTAProfile
import OTASimulator
import OTAUpdate
import Testing

/// Complete updates with encoded images: liblzma encodes, and the device core in C decodes.
@Suite("Updates with encoded images over the OTA profile") struct EncodedUpdateTests {
    @Test("an update with the running image as the base sends a small part of the bytes")
    func delta() throws {
        let release = try EncodedRelease(bytes: 100_000)
        let (run, world) = try release.run()
        let report = try #require(run.report)
        #expect(report.outcome == .confirmed && world.runsNewImage)
        let transfer = try #require(report.transfer)
        #expect(transfer.encoding == .lzma2 && transfer.base == release.bases.list[0] && transfer.baseRefused == 0)
        #expect(transfer.sentBytes < 5000 && transfer.sentBytes == transfer.encodedBytes && transfer.resentBytes == 0)
        #expect(report.device.encodings == [.lzma2] && report.device.largestBase == 102_400)
    }

    @Test("an update without a known base is compressed")
    func compressed() throws {
        let (run, world) = try EncodedRelease(bytes: 100_000, knowsBase: false).run()
        let transfer = try #require(run.report?.transfer)
        #expect(world.runsNewImage && transfer.encoding == .lzma2 && transfer.base == nil)
        #expect(transfer.sentBytes < 80_000 && transfer.sentBytes == transfer.encodedBytes)
    }

    @Test("the running image itself takes at most 0.3 % of its bytes")
    func unchanged() throws {
        let release = try EncodedRelease(bytes: 100_000)
        let same = Bases([(release.release.image, nil)])
        let world = try World(release.release, running: release.release.image)
        let run = try world.run(
            [.push(release.release.bundle, UpdateOptions(bases: same.list))],
            encoders: [same.encoder(for: release.release)])[0]
        #expect(run.report?.outcome == .confirmed && world.runsNewImage)
        #expect((run.report?.transfer?.sentBytes ?? .max) <= 300)
    }

    @Test("bases that the device does not run are refused, and the update is compressed")
    func wrongBases() throws {
        let other = Firmware.image(bytes: 90_000, seed: 8)
        let tooLarge = Firmware.image(bytes: 200_000, seed: 9)
        let release = try EncodedRelease(bytes: 100_000, knowsBase: false, others: [other, tooLarge])
        let (run, world) = try release.run()
        let transfer = try #require(run.report?.transfer)
        #expect(world.runsNewImage && transfer.encoding == .lzma2 && transfer.base == nil && transfer.baseRefused == 1)
        let right = try EncodedRelease(bytes: 100_000, others: [other])
        let second = try #require(try right.run().run.report?.transfer)
        #expect(second.base == right.bases.list[1] && second.baseRefused == 1)
    }

    @Test("old and new: a device without encodings or without a readable base, and a host without an encoder")
    func oldAndNew() throws {
        let release = try EncodedRelease(bytes: 50_000)
        let (old, oldWorld) = try release.run { $0.offersEncodings = false }
        #expect(oldWorld.runsNewImage && old.report?.transfer?.plainBecause == .notOffered)
        #expect(old.report?.transfer?.sentBytes == 50_000 && old.report?.device.encodings == [])
        let (noBase, noBaseWorld) = try release.run { $0.offersBase = false }
        #expect(noBaseWorld.runsNewImage && noBase.report?.transfer?.encoding == .lzma2)
        #expect(noBase.report?.transfer?.base == nil && noBase.report?.device.largestBase == 0)
        let world = try release.world()
        let without = try world.run([release.push()])[0]
        #expect(world.runsNewImage && without.report?.transfer?.encoding == .plain)
        #expect(without.report?.transfer?.sentBytes == 50_000)
    }

    @Test("an image of random bytes is sent plain, because it does not become smaller")
    func incompressible() throws {
        let release = try ExampleRelease(bytes: 50_000)
        let world = try World(release)
        let bases = Bases([])
        let run = try world.run([.push(release.bundle, UpdateOptions())], encoders: [bases.encoder(for: release)])[0]
        #expect(world.runsNewImage && run.report?.transfer?.plainBecause == .notSmaller)
        #expect(run.report?.transfer?.sentBytes == 50_000)
    }

    @Test("an encoded update ends confirmed despite gaps, loss, lost links and a device reset")
    func faults() throws {
        var radio = RadioModel()
        radio.loss = 0.2
        for knowsBase in [true, false] {
            let release = try EncodedRelease(bytes: 100_000, changes: 3000, knowsBase: knowsBase)
            let (run, world) = try release.run(radio: radio, faults: .rough)
            let transfer = try #require(run.report?.transfer)
            #expect(run.report?.outcome == .confirmed && world.runsNewImage)
            #expect(transfer.encoding == .lzma2 && transfer.disconnects > 0 && transfer.gaps > 0)
            #expect(transfer.encodedBytes + transfer.resentBytes == transfer.sentBytes)
            #expect(world.transport.statistics.maximumChunksInFlight <= 64)
        }
    }

    @Test(
        "an encoded update ends confirmed at each MTU from 23 to 517",
        arguments: [23, 50, 185, 247, 498, 517])
    func worksAtAnyMTU(mtu: Int) throws {
        var radio = RadioModel()
        radio.mtu = mtu
        let (run, world) = try EncodedRelease(bytes: 20_000, changes: 500).run(radio: radio)
        #expect(run.report?.transfer?.encoding == .lzma2 && world.runsNewImage)
    }

    @Test("an update continues plain after an encoded part, and encoded after a plain part")
    func changesForm() throws {
        let release = try EncodedRelease(bytes: 60_000, changes: 2000)
        for encoders in [[release.encoder, nil], [nil, release.encoder]] {
            let world = try release.world()
            // The client is killed in the middle of the image.
            let whole = try release.world().run([release.push()], encoders: [encoders[0]])[0]
            let runs = try world.run(
                [release.push(), release.push()], deaths: [whole.tally.events / 2], encoders: encoders)
            #expect(runs[0].error == .interrupted)
            let transfer = try #require(runs[1].report?.transfer)
            #expect(world.runsNewImage && transfer.resumedFrom > 0)
            #expect((transfer.encoding == .lzma2) == (encoders[1] != nil))
        }
    }
}
