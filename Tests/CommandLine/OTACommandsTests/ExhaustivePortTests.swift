import FakeBlueZ
import Glibc
import OTAFirmware
import OTASigning
import OTASimulator
import OTATestSupport
import OTAUpdate
import Testing

/// Updates the example in Examples/posix-port without Bluetooth, with power cuts.
@Suite("The example of a port of the device core, at each power cut") struct ExhaustivePortTests {
    /// Updates the port with a power cut at each step of its flash. Returns the number of steps of an update.
    private func cutAtEachStep(
        _ program: String, _ sandbox: Sandbox, flash: [UInt8]? = nil, from old: String = "1.0.0",
        to new: String = "1.1.0"
    ) throws -> Int {
        var offsets: Set<Int> = []
        for cut in 1... {
            let host = try PortHost(program, sandbox, flash: flash, powerCuts: [cut])
            try host.update(from: old, to: new)
            offsets.formUnion(host.offsets)
            guard host.device.exits == [75] else {
                #expect(host.device.exits == [] && offsets == [0, 4096, 6000], "\(cut): \(offsets)")
                return cut - 1
            }
        }
        return 0
    }

    @Test("under the sanitizers, the port survives a power cut at each step of its flash, and resumes")
    func oneCut() async throws {
        let sandbox = try Sandbox()
        let steps = try cutAtEachStep(try await sandbox.posixPort(), sandbox)
        // The factory image with its record, two pages of the slot, five records of the core, mark, trial and CONFIRM.
        #expect(steps >= 32)
    }

    @Test(
        "the port survives a power cut while its bootloader moves its records to the other page",
        arguments: [0, 1, 2])
    func fullPage(free: Int) async throws {
        let sandbox = try Sandbox()
        let program = try await sandbox.posixPort(sanitizers: false)
        // The first page of records gets full, then the second one. The records of the first page are then the old ones.
        var flash: [UInt8]?
        for (version, page) in [("1.1.0", 0), ("1.2.0", 1)] {
            let host = try PortHost(program, sandbox, flash: flash, powerCuts: [])
            try host.update(from: page == 0 ? "1.0.0" : "1.1.0", to: version)
            #expect(host.device.exits == [])
            host.device.losePower(at: .zero)
            flash = try filled(try sandbox.read("flash"), page: page, free: page == 0 ? 0 : free)
        }
        let steps = try cutAtEachStep(program, sandbox, flash: flash, from: "1.2.0", to: "1.3.0")
        #expect(steps >= 26)
    }

    /// Damages one byte in each unused record of a page, except `free` records, as interrupted writes do.
    private func filled(_ flash: [UInt8], page: Int, free: Int) throws -> [UInt8] {
        // The size of `struct boot` and the size of a page.
        let (size, pageSize) = (284, 4096)
        let places = (0..<(pageSize / size)).map { page * pageSize + $0 * size }
        let unused = places.filter { flash[$0..<($0 + size)].allSatisfy { $0 == 0xFF } }
        try #require(unused.count < places.count && unused.count > free)
        var result = flash
        for place in unused.dropLast(free) { result[place + 100] = 0 }
        return result
    }

    @Test("the port survives a second power cut at each step of its flash after the first one")
    func twoCuts() async throws {
        let sandbox = try Sandbox()
        let program = try await sandbox.posixPort(sanitizers: false)
        // An image of one page, because each pair of steps costs one update.
        func exits(_ cuts: Int...) throws -> [CInt] {
            let host = try PortHost(program, sandbox, powerCuts: cuts)
            try host.update(from: "1.0.0", to: "1.1.0", size: 3_000)
            return host.device.exits
        }
        for first in 1... {
            guard try exits(first) == [75] else { return #expect(first > 26) }
            for second in 1... {
                let ends = try exits(first, second)
                guard ends == [75, 75] else {
                    #expect(ends == [75], "\(first) and \(second)")
                    break
                }
            }
        }
    }
}

/// A host that follows docs/ota-profile.md, for a port whose power fails.
private final class PortHost: @unchecked Sendable {
    let device: PortDevice
    /// The offsets at which transfers began.
    private(set) var offsets: Set<Int> = []
    private let cuts: [Int]
    private var connection: UInt16 = 0
    private var answer: [UInt8] = []

    /// - Parameter flash: the bytes of the flash; nil: a new device.
    init(_ program: String, _ sandbox: Sandbox, flash: [UInt8]? = nil, powerCuts: [Int]) throws {
        cuts = powerCuts
        unlink(sandbox.path("flash"))
        if let flash { try sandbox.write("flash", flash) }
        device = PortDevice(program, flash: sandbox.path("flash"), powerCuts: powerCuts)
        device.observe { [weak self] _, channel, value in
            if channel == VirtualGATT.control { self?.answer = value }
            return true
        } onRestart: {
        }
    }

    /// Updates the device. After each power cut, it connects again.
    func update(from old: String, to new: String, size: Int = 6_000) throws {
        let version = try #require(SemanticVersion(new))
        let release = try FakeRelease(bytes: size, version: version, product: try #require(ProductName("demo")))
        var (asked, isConfirmed, wasOnTrial) = (false, false, false)
        for _ in 0..<12 {
            guard device.reachable(at: .zero) != nil else { continue }
            connection += 1
            guard device.connect(connection, valueLength: 244, at: .zero) else { continue }
            do {
                let running = String(decoding: try read(VirtualGATT.version), as: UTF8.self)
                let isOnTrial = try read(VirtualGATT.progress).first == 5
                try device.subscribe(connection, to: VirtualGATT.control, on: true, at: .zero)
                switch running {
                case old where !isOnTrial && !isConfirmed:
                    (asked, wasOnTrial) = (false, false)
                    try install(release)
                case new where isOnTrial && !wasOnTrial && !isConfirmed:
                    (asked, wasOnTrial) = (true, true)
                    try request([5, 1])
                    isConfirmed = true
                    device.losePower(at: .zero)
                case new where asked && !isOnTrial:
                    // A confirmed image also runs after the next loss of power.
                    guard !isConfirmed else { return }
                    isConfirmed = true
                    device.losePower(at: .zero)
                default:
                    Issue.record("\(cuts): version \(running), on trial: \(isOnTrial)")
                    return
                }
            } catch is ATTError {
                // The power failed, or the device has restarted.
            }
        }
        Issue.record("\(cuts): the update did not end")
    }

    /// Sends the release and APPLY. The end of the connection starts the restart of the device.
    private func install(_ release: FakeRelease) throws {
        let envelope = release.bundle.envelope.bytes
        try send(1, envelope, release.bundle.envelopeDigest.prefix)
        offsets.insert(try send(2, release.bundle.image, release.bundle.manifest.imageDigest.prefix))
        try request([4, 1, 0])
        device.disconnect(connection, at: .zero)
        device.wait()
    }

    /// Sends an object from the device's offset on. Returns this offset.
    @discardableResult
    private func send(_ object: UInt8, _ bytes: [UInt8], _ prefix: [UInt8]) throws -> Int {
        var begin = ByteWriter()
        begin.write([1, 1, object])
        begin.write(UInt32(bytes.count))
        begin.write(UInt32(bytes.count))
        begin.write(prefix)
        var position = ByteReader(try request(begin.bytes))
        var sequence = try position.read(UInt16.self)
        let start = Int(try position.read(UInt32.self))
        for offset in stride(from: start, to: bytes.count, by: 242) {
            var value = ByteWriter()
            value.write(sequence)
            value.write(bytes[offset..<min(offset + 242, bytes.count)])
            try device.write(connection, VirtualGATT.data, value.bytes, at: .zero)
            sequence &+= 1
        }
        try request([3, 1])
        return start
    }

    /// Sends a request, and returns the results in its answer.
    @discardableResult
    private func request(_ bytes: [UInt8]) throws -> [UInt8] {
        answer = []
        try device.write(connection, VirtualGATT.control, bytes, at: .zero)
        while answer.isEmpty {
            guard device.isConnected(connection) else { throw ATTError.unlikely }
            device.wait()
        }
        #expect(answer.prefix(3) == [0x80 | bytes[0], 1, 0], "\(cuts): \(bytes) \(answer)")
        return Array(answer.dropFirst(3))
    }

    private func read(_ channel: Channel) throws -> [UInt8] {
        try device.read(connection, channel, offset: 0, capacity: 512, at: .zero)
    }
}
