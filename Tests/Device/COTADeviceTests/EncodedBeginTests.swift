import COTADevice
import Testing

@Suite("BEGIN of an encoded image") struct EncodedBeginTests {
    let image = Array(EncodedVectors.image.prefix(3000))
    let base = Array(EncodedVectors.base.prefix(5000))

    @Test("a device without a decoder refuses object 3 as an unknown object, in each state")
    func withoutDecoder() {
        for state in [OTA_STATE_IDLE, OTA_STATE_ENVELOPE, OTA_STATE_ACCEPTED, OTA_STATE_IMAGE, OTA_STATE_VERIFIED] {
            let bench = Bench()
            bench.bring(to: state)
            let before = bench.read(OTA_PROGRESS)
            #expect(bench.encodedStatus(base: []) == OTA_BAD_ARGUMENT)
            #expect(bench.read(OTA_PROGRESS) == before)
        }
    }

    @Test("the device checks the state before the arguments, and opens the image in the states of BEGIN image")
    func states() {
        for (state, status) in [
            (OTA_STATE_IDLE, OTA_BAD_STATE), (OTA_STATE_ENVELOPE, OTA_BAD_STATE), (OTA_STATE_ACCEPTED, OTA_OK),
            (OTA_STATE_IMAGE, OTA_OK), (OTA_STATE_VERIFIED, OTA_OK), (OTA_STATE_TRIAL, OTA_BAD_STATE),
        ] {
            var settings = Settings()
            settings.hasDecoder = true
            let bench = Bench(settings)
            bench.bring(to: state)
            #expect(bench.request(OTA_BEGIN, [3, 9]) == (status == OTA_OK ? OTA_BAD_ARGUMENT : OTA_BAD_STATE))
            #expect(bench.state == state)
            #expect(bench.encodedStatus(base: []) == status)
            #expect(bench.state == (status == OTA_OK ? OTA_STATE_IMAGE : state))
        }
    }

    @Test("a wrong length, another encoding and a digest of no base are bad arguments and change nothing")
    func arguments() throws {
        let bench = try encodedBench(image, holding: 700, base: base)
        let before = bench.read(OTA_PROGRESS)
        let correct = Bench.encodedArguments(from: 0, base: base)
        var encoding = correct
        encoding[1] = 2
        var noBase = Bench.encodedArguments(from: 0, base: [])
        noBase[17] = 1
        for arguments in [Array(correct.dropLast()), correct + [0], encoding, noBase] {
            #expect(bench.request(OTA_BEGIN, arguments) == OTA_BAD_ARGUMENT)
            #expect(bench.read(OTA_PROGRESS) == before)
        }
    }

    @Test("a base that is longer than announced, or has another digest, is refused and changes nothing")
    func wrongBase() throws {
        let bench = try encodedBench(image, holding: 700, base: base)
        let before = bench.read(OTA_PROGRESS)
        let operations = bench.flash.operations
        var other = base
        other[4999] ^= 1
        for wrong in [base + [0], other, Array(base.dropLast()) + [0], Array(EncodedVectors.image.prefix(6000))] {
            #expect(bench.encodedStatus(from: 0, base: wrong) == OTA_WRONG_BASE)
            #expect(bench.read(OTA_PROGRESS) == before)
        }
        var huge = Bench.encodedArguments(from: 0, base: base)
        huge.replaceSubrange(6..<10, with: little(UInt32.max))
        #expect(bench.request(OTA_BEGIN, huge) == OTA_WRONG_BASE)
        #expect(bench.flash.operations == operations)
        #expect(bench.flash.violations == [])
        // The open object continues with the same sequence.
        let position = try #require(bench.progress?.position)
        bench.send(image, at: position)
        #expect(bench.request(OTA_FINISH) == OTA_OK)
    }

    @Test("a BEGIN that is refused because of its base or of the wear limit does not change an open encoded image")
    func openStream() throws {
        let bench = try encodedBench(image, base: base) {
            $0.slotSize = 4096; $0.largestImage = 4096
        }
        let stream = LZMA2Writer.copied(image)
        let first = Array(stream.prefix(300))
        func expectOpen(_ next: UInt16) {
            #expect(bench.progress?.position == Position(next: next, offset: first.count, crc: Crypto.crc32(first)))
        }
        var begun: Position?
        // Each BEGIN charges wear points. So the loops end long before 100 requests.
        for _ in 0..<100 {
            guard let position = bench.beginEncoded(from: 0) else { break }
            begun = position
            bench.write(data: little(position.next) + first)
            guard bench.device.pointee.wear < 300 else { break }
        }
        let next = try #require(begun).next &+ 1
        expectOpen(next)
        #expect(bench.encodedStatus(from: 0, base: Array(base.dropLast()) + [0x11]) == OTA_WRONG_BASE)
        expectOpen(next)
        // The wear limit is checked after the base.
        var isBusy = false
        for _ in 0..<100 where !isBusy {
            isBusy = bench.encodedStatus(from: 0, base: base) == OTA_BUSY
            if !isBusy { bench.write(data: little(bench.progress?.position?.next ?? 0) + first) }
        }
        try #require(isBusy)
        let last = try #require(bench.progress?.position?.next)
        expectOpen(last)
        bench.write(data: little(last) + stream[300..<800])
        #expect(bench.progress?.position?.offset == 800)
    }

    @Test("a base that is longer than announced is refused, even if the running image starts with it")
    func longerThanAnnounced() throws {
        let bench = try encodedBench(image, base: base) { $0.baseSize = 4999 }
        #expect(bench.encodedStatus(base: base) == OTA_WRONG_BASE)
        #expect(bench.encodedStatus(base: Array(base.dropLast())) == OTA_OK)
    }

    @Test("a base that cannot be read or hashed is refused as a wrong base")
    func unreadableBase() throws {
        let bench = try encodedBench(image, base: base)
        bench.flash.failing = { $0.hasPrefix("read base") }
        #expect(bench.encodedStatus(base: base) == OTA_WRONG_BASE)
        bench.flash.failing = nil
        bench.hashFails = true
        #expect(bench.encodedStatus(base: base) == OTA_WRONG_BASE)
        bench.hashFails = false
        #expect(bench.encodedStatus(base: base) == OTA_OK)
    }

    @Test("the device hashes a base once for each boot, and again if another base held in between")
    func hashedOnce() throws {
        let bench = try encodedBench(image, base: base)
        func hashed(_ base: [UInt8]) -> Int {
            let before = bench.hashedCount
            #expect(bench.encodedStatus(base: base) == OTA_OK)
            return bench.hashedCount - before
        }
        let part = Array(base.prefix(4097))
        #expect(hashed(base) == 5000)
        #expect(hashed(base) == 0)
        #expect(hashed([]) == 0)
        #expect(hashed(base) == 0)
        // A refused base does not replace the one that held.
        for wrong in [Array(part.dropLast()), Array(base.dropLast())] {
            #expect(bench.encodedStatus(base: wrong + [0x11]) == OTA_WRONG_BASE)
        }
        #expect(hashed(base) == 0)
        #expect(hashed(part) == 4097)
        #expect(hashed(base) == 5000)
    }

    @Test("the device hashes the base again after a boot, because another image may run")
    func hashedAfterBoot() throws {
        var release = BenchRelease()
        release.image = image
        let bench = try encodedBench(image, base: base)
        #expect(bench.encodedStatus(base: base) == OTA_OK)
        bench.settings.base[17] ^= 4
        bench.boot()
        bench.connect()
        bench.submit(release.envelope)
        let operations = bench.flash.operations.filter { $0.contains("slot") }
        #expect(bench.encodedStatus(base: base) == OTA_WRONG_BASE)
        #expect(bench.flash.operations.filter { $0.contains("slot") } == operations)
        #expect(bench.encodedStatus(base: bench.settings.base) == OTA_OK)
    }

    @Test("each poll reads at most 4 KiB of the base")
    func pollsOfBase() throws {
        let base = EncodedVectors.base
        let bench = try encodedBench(image, base: base) { $0.pageSize = 8192 }
        let request = [UInt8(OTA_BEGIN.rawValue), 1] + Bench.encodedArguments(from: 0, base: base)
        #expect(ota_device_write_control(bench.device, 1, request, UInt16(request.count), bench.now) == OTA_ATT_OK)
        var polls = 0
        var before = bench.flash.readByteCount
        while ota_device_poll(bench.device, bench.now) == 0 {
            polls += 1
            #expect(bench.flash.readByteCount - before <= 4096)
            before = bench.flash.readByteCount
            // Another request during the job is busy.
            if polls == 2 {
                #expect(ota_device_write_control(bench.device, 1, [2, 9, 0, 0], 4, bench.now) == OTA_ATT_OK)
            }
        }
        #expect(polls >= base.count / 4096)
        #expect(bench.heard(OTA_CONTROL).map { Array($0.prefix(3)) }.suffix(2) == [[0x82, 9, 4], [0x81, 1, 0]])
    }

    @Test("the wear limit counts an encoded image like a plain one")
    func wear() throws {
        let bench = try encodedBench(image, holding: 1) {
            $0.slotSize = 4096; $0.largestImage = 4096
        }
        var accepted = 0
        while bench.encodedStatus(from: 0, base: []) == OTA_OK, accepted < 100 {
            accepted += 1
            bench.write(
                data: little(bench.progress?.position?.next ?? 0) + LZMA2Writer.copied(Array(image.prefix(300))))
        }
        #expect(accepted == 36)
        #expect(bench.encodedStatus(from: 0, base: []) == OTA_BUSY)
    }

    @Test("a base that does not fit in 32-bit positions together with the slot is refused at the start")
    func largestBase() {
        var settings = Settings()
        settings.hasDecoder = true
        settings.baseSize = UInt32.max - 16384
        #expect(Bench(settings).boot() == OTA_START_OK)
        settings.baseSize = UInt32.max - 16383
        #expect(Bench(settings).boot() == OTA_START_PAGES)
    }

    @Test("struct ota_decoder has at most 3700 bytes")
    func size() { #expect(MemoryLayout<ota_decoder>.size <= 3700) }
}
