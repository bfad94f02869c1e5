import COTADevice
import Testing

/// Cuts the power and the link of encoded transfers. The pages are small, so that a stream crosses many of them.
@Suite("Cuts of encoded images") struct ExhaustiveEncodedCutTests {
    static let base = EncodedVectors.program(count: 3000, seed: 11)
    static let image: [UInt8] = {
        var image = base
        for place in stride(from: 5, to: image.count, by: 211) { image[place] ^= 0x33 }
        return image + EncodedVectors.program(count: 600, seed: 12)
    }()
    static let release: BenchRelease = {
        var release = BenchRelease()
        release.image = image
        return release
    }()

    private func boot(_ change: (inout Settings) -> Void = { _ in }, flash: Flash? = nil) -> Bench {
        var settings = Settings()
        settings.hasDecoder = true
        settings.base = Self.base
        settings.permanentAllowed = true
        change(&settings)
        let bench = Bench(settings)
        if let flash { bench.flash = flash }
        bench.boot()
        return bench
    }

    /// Sends the rest of the image, encoded or plain, and FINISH. Returns the position in BEGIN's answer.
    private func send(_ bench: Bench, encoded: Bool, upTo values: Int = .max) -> Position? {
        bench.connect()
        guard bench.submit(Self.release.envelope) == OTA_OK else { return nil }
        guard encoded else {
            let position = bench.begin(OTA_OBJECT_IMAGE, Self.image, from: .max)
            if let position { bench.send(Self.image, at: position) }
            return position
        }
        let position = bench.beginEncoded(base: Self.base)
        if let position {
            let stream = LZMA2Writer.stream(Self.image, from: position.offset, base: Self.base)
            var sequence = position.next
            for start in stride(from: 0, to: stream.count, by: 29).prefix(values) {
                bench.write(data: little(sequence) + stream[start..<min(start + 29, stream.count)])
                sequence &+= 1
            }
        }
        return position
    }

    private func check(_ bench: Bench, _ position: Position?, _ held: ClosedRange<Int>, _ comment: String) {
        #expect(position.map { held.contains($0.offset) } == true, "\(comment)")
        #expect(position?.crc == Crypto.crc32(Self.image.prefix(position?.offset ?? 0)), "\(comment)")
        #expect(bench.request(OTA_FINISH) == OTA_OK, "\(comment)")
        #expect(bench.flash.slot.starts(with: Self.image), "\(comment)")
        #expect(bench.flash.violations == [], "\(comment)")
    }

    @Test(
        "after a power cut at any flash operation the device resumes at its record, encoded or plain",
        arguments: Flash.Cut.allCases, [true, false])
    func power(_ cut: Flash.Cut, _ continuesEncoded: Bool) {
        for operation in 0... {
            let bench = boot()
            bench.flash.operationsLeft = operation
            bench.flash.cut = cut
            _ = send(bench, encoded: true)
            guard !bench.flash.hasPower else {
                #expect(operation > 30)
                break
            }
            var flash = bench.flash
            let possible = [
                flash.records.last?.offset ?? 0, flash.tornRecord?.offset ?? flash.records.last?.offset ?? 0,
            ]
            flash.hasPower = true
            flash.operationsLeft = .max
            flash.tornRecord = nil
            let again = boot(flash: flash)
            let position = send(again, encoded: continuesEncoded)
            check(again, position, (possible.min() ?? 0)...(possible.max() ?? 0), "\(cut) operation \(operation)")
        }
    }

    @Test(
        "after a lost link the device keeps each decoded byte, and continues encoded or plain",
        arguments: [true, false])
    func link(_ continuesEncoded: Bool) {
        let stream = LZMA2Writer.stream(Self.image, from: 0, base: Self.base)
        for values in 0...(stream.count / 29) {
            let bench = boot()
            _ = send(bench, encoded: true, upTo: values)
            let held = Int(bench.device.pointee.held_offset)
            bench.disconnect()
            check(bench, send(bench, encoded: continuesEncoded), held...held, "\(values) values")
        }
    }

    @Test("after a failed flash operation the device holds only bytes in flash, and the image can be sent again")
    func failures() {
        let count = boot().flash.operations.count
        let whole = boot()
        _ = send(whole, encoded: true)
        for (failure, name) in whole.flash.operations.dropFirst(count).flatMap({ name in
            Flash.Failure.allCases.map { ($0, name) }
        })
        where failure != .silently {
            let bench = boot()
            bench.flash.failure = failure
            bench.flash.failing = { $0 == name }
            _ = send(bench, encoded: true)
            bench.flash.failing = nil
            bench.reconnect()
            let position = send(bench, encoded: true)
            check(bench, position, 0...Self.image.count, "\(name) \(failure)")
        }
    }

    @Test("a base that cannot be read during a transfer is reported as 19, and a slot that cannot be read as 15")
    func reads() throws {
        for (area, status) in [("base", OTA_NOT_DECODED), ("slot", OTA_FLASH_FAILED)] {
            let bench = boot()
            bench.connect()
            bench.submit(Self.release.envelope)
            let position = try #require(bench.beginEncoded(base: Self.base))
            bench.flash.failing = { $0.hasPrefix("read \(area)") }
            var writer = LZMA2Writer()
            let literals = Self.image.prefix(300).map { LZMA2Writer.Symbol.literal($0) }
            let match = LZMA2Writer.Symbol.match(distance: area == "base" ? 301 : 300, length: 3)
            let chunk = LZMA2Writer.chunk(writer.encode(literals + [match]), plain: 303)
            bench.write(data: little(position.next) + chunk.prefix(242))
            bench.write(data: little(position.next &+ 1) + chunk.dropFirst(242))
            #expect(bench.progress?.status == UInt8(status.rawValue))
            #expect(bench.state == OTA_STATE_ACCEPTED)
        }
    }
}
