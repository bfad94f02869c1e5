import COTADevice
import Testing

/// Calls the core with random values in random order. The seeds are fixed.
@Suite("Random input to the device core") struct GarbageTests {
    @Test("25,000 random calls never mark an unsigned image or misuse the flash", arguments: [1, 2, 3, 4] as [UInt64])
    func anything(_ seed: UInt64) {
        var garbage = Garbage(seed: seed)
        for _ in 0..<25_000 { garbage.step() }
        #expect(garbage.findings.isEmpty)
        #expect(garbage.bench.flash.violations.isEmpty)
        // The random calls reached most states and statuses.
        #expect(garbage.statesSeen.count >= 5)
        #expect(garbage.statusesSeen.isSuperset(of: [0, 1, 2, 3, 4]))
    }
}

/// Calls every function of the core with arguments that are random or almost correct.
struct Garbage {
    var random: SeededGenerator
    let bench = Bench()
    let releases = [
        BenchRelease(image: BenchRelease.image(count: 700)),
        BenchRelease(image: BenchRelease.image(count: 2600, seed: 9)),
    ]
    var statesSeen: Set<UInt32> = []
    var statusesSeen: Set<UInt8> = []
    var findings: [String] = []

    init(seed: UInt64) {
        random = SeededGenerator(seed: seed)
        bench.boot()
    }

    mutating func step() {
        let connection = UInt16.random(in: 1...5, using: &random)
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<3: bench.connect(connection)
        case 3..<4: bench.disconnect(connection)
        case 4..<6:
            let characteristic = ota_characteristic(UInt32.random(in: 0...8, using: &random))
            ota_device_subscribed(bench.device, connection, characteristic, chance(90), bench.now)
        case 6..<20: bench.write(control: requestBytes(), by: connection)
        case 20..<30: bench.write(data: noise(upTo: 520), by: connection)
        case 30..<70: chunk(connection)
        case 70..<90: update(connection)
        case 90..<93: read(connection)
        case 93..<96: bench.pass(UInt32.random(in: 0...40_000, using: &random))
        case 96..<97: bench.buffers = chance(50) ? 0 : .max
        case 97..<98: failures()
        case 98..<99: policy()
        default: if chance(20) { boot() }
        }
        look()
    }

    private mutating func chance(_ perCent: Int) -> Bool { Int.random(in: 0..<100, using: &random) < perCent }

    private mutating func noise(upTo count: Int) -> [UInt8] {
        (0..<Int.random(in: 0...count, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
    }

    private mutating func release() -> BenchRelease { releases[Int.random(in: 0..<releases.count, using: &random)] }

    private mutating func requestBytes() -> [UInt8] {
        var bytes = [UInt8.random(in: 0...9, using: &random), 1] + noise(upTo: 22)
        if bytes[0] == 1, chance(70) {
            let object = chance(50) ? OTA_OBJECT_ENVELOPE : OTA_OBJECT_IMAGE
            let content = object == OTA_OBJECT_ENVELOPE ? release().envelope : release().image
            bytes = [1, 1] + Bench.beginArguments(object, content, from: random.next() & 1 == 0 ? .max : 700)
            if chance(20) {
                bytes[Int.random(in: 0..<bytes.count, using: &random)] ^= 1 << UInt8.random(in: 0...7, using: &random)
            }
        } else if chance(60) {
            bytes = Array(bytes.prefix(bytes[0] == 2 ? 4 : chance(60) ? 2 : 3))
        }
        return bytes
    }

    /// Sends the next bytes of a release, mostly with the expected sequence.
    private mutating func chunk(_ connection: UInt16) {
        guard let progress = bench.read(OTA_PROGRESS, by: connection), let position = Position(progress.dropFirst(2))
        else { return }
        let content = progress[0] == 1 ? release().envelope : release().image
        let end = min(position.offset + Int.random(in: 1...242, using: &random), content.count)
        guard position.offset < end else { return }
        let sequence = chance(90) ? position.next : UInt16.random(in: 0...65535, using: &random)
        bench.write(data: little(sequence) + content[position.offset..<end], by: connection)
    }

    /// Sends a correct request for the current state.
    private mutating func update(_ connection: UInt16) {
        let release = release()
        switch bench.state {
        case OTA_STATE_IDLE: bench.submit(release.envelope, by: connection)
        case OTA_STATE_ACCEPTED: _ = bench.begin(OTA_OBJECT_IMAGE, release.image, from: .max, by: connection)
        case OTA_STATE_ENVELOPE: bench.request(OTA_FINISH, by: connection)
        case OTA_STATE_IMAGE:
            if let progress = bench.read(OTA_PROGRESS, by: connection), let position = Position(progress.dropFirst(2)) {
                if chance(30) { bench.send(release.image, at: position, by: connection) }
                bench.request(OTA_FINISH, by: connection)
            }
        case OTA_STATE_VERIFIED: if chance(10) { bench.request(OTA_APPLY, [0], by: connection) }
        default: if chance(10) { bench.request(OTA_CONFIRM, by: connection) }
        }
    }

    private mutating func read(_ connection: UInt16) {
        let characteristic = ota_characteristic(UInt32.random(in: 0...8, using: &random))
        let offset = Int.random(in: 0...300, using: &random)
        let capacity = Int.random(in: 0...300, using: &random)
        if let value = bench.read(characteristic, by: connection, from: offset, upTo: capacity), value.count > capacity
        {
            findings.append("a read returned more bytes than the capacity")
        }
    }

    private mutating func failures() {
        let digit = "\(Int.random(in: 0...9, using: &random))"
        bench.flash.failing = nil
        if chance(30) { bench.flash.failing = { $0.hasSuffix(digit) } }
        bench.markFails = chance(10)
        bench.confirmFails = chance(10)
        bench.hashFails = chance(5)
    }

    private mutating func policy() {
        bench.permits = chance(90)
        bench.isTooOld = chance(10)
        bench.selfTestPassed = chance(80)
        bench.battery = UInt8.random(in: 0...255, using: &random)
    }

    private mutating func boot() {
        bench.settings.onTrial = chance(20)
        bench.settings.eraseAhead = chance(30)
        bench.now = chance(20) ? .max - 10_000 : bench.now
        bench.boot()
    }

    /// Checks the rules that hold at any time.
    private mutating func look() {
        if bench.log.contains("reboot") {
            bench.log = []
            boot()
        }
        statesSeen.insert(bench.state.rawValue)
        if bench.state.rawValue > 5 { findings.append("state \(bench.state.rawValue)") }
        for notification in bench.notifications {
            let bytes = notification.bytes
            let isAnswer = notification.characteristic == OTA_CONTROL && (bytes.count == 3 || bytes.count == 13)
            let isProgress = notification.characteristic == OTA_PROGRESS && bytes.count == 12
            if !isAnswer && !isProgress { findings.append("an unknown notification: \(bytes)") }
            if isAnswer { statusesSeen.insert(bytes[2]) }
        }
        bench.notifications = []
        for mark in bench.marks {
            let marked = releases.first { $0.digest == mark.digest }
            let isThere = marked.map { bench.flash.slot.starts(with: $0.image) } ?? false
            if !isThere { findings.append("an image that is not signed was marked") }
        }
        bench.marks = []
        bench.flash.operations = []
        bench.flash.records = []
        bench.confirmations = []
        bench.identified = []
        bench.begun = []
    }
}
