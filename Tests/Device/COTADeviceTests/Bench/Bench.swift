import COTADevice

/// A device for tests: the core, its flash, radio and bootloader. Each part can fail on request.
final class Bench {
    struct Notification: Equatable {
        var connection: UInt16
        var characteristic: ota_characteristic
        var bytes: [UInt8]
    }

    /// The arguments of one call of `mark`.
    struct Mark: Equatable {
        var boot: ota_boot
        var digest, imageDigest: [UInt8]
        var imageSize, counter: UInt32
        var version, product: String
        var source: String?
    }

    struct Confirmation: Equatable {
        var counter: UInt32
        var digest: [UInt8]?
    }

    var settings: Settings
    var flash: Flash
    var now: UInt32 = 1000

    // The results of the callbacks.
    var battery = UInt8(OTA_NO_BATTERY)
    var selfTestPassed = true
    var isTooOld = false
    var permits = true
    var markFails = false
    var confirmFails = false
    var hashFails = false
    /// The number of bytes that the core has hashed.
    var hashedCount = 0
    /// The number of notifications that fit into the buffers of the stack.
    var buffers = Int.max

    // The calls of the callbacks.
    var notifications: [Notification] = []
    var marks: [Mark] = []
    var confirmations: [Confirmation] = []
    var identified: [UInt8] = []
    var begun: [UInt16] = []
    var verifications = 0
    var log: [String] = []

    /// The tag of the last request.
    var tag: UInt8 = 0x20

    let device = UnsafeMutablePointer<ota_device>.allocate(capacity: 1)
    private let port = UnsafeMutablePointer<ota_port>.allocate(capacity: 1)
    private var configuration: Configuration
    private var page: UnsafeMutableBufferPointer<UInt8>
    fileprivate var hashed: [UInt8]?

    init(_ settings: Settings = Settings()) {
        self.settings = settings
        flash = Flash(
            pageSize: Int(settings.pageSize), slotSize: Int(settings.slotSize), writeUnit: Int(settings.writeUnit))
        configuration = Configuration(settings)
        page = .allocate(capacity: Int(settings.pageSize))
        device.initialize(to: ota_device())
        port.initialize(to: Self.callbacks())
    }

    deinit {
        page.deallocate()
        device.deallocate()
        port.deallocate()
    }

    /// Starts the device with the current settings. The power is cut at the given flash operation.
    @discardableResult
    func boot(cutting operation: Int = .max, _ cut: Flash.Cut = .before) -> ota_start_error {
        flash.hasPower = true
        flash.operationsLeft = operation
        flash.cut = cut
        flash.base = settings.base
        configuration = Configuration(settings)
        page.deallocate()
        page = .allocate(capacity: Int(settings.pageSize))
        page.initialize(repeating: 0x77)
        return ota_device_start(
            device, configuration.pointer, port, Unmanaged.passUnretained(self).toOpaque(), page.baseAddress, now)
    }

    var state: ota_state { ota_device_state(device) }

    /// Polls until the core has no more work. Returns the time until the next poll in milliseconds.
    @discardableResult
    func settle() -> UInt32 {
        for _ in 0..<100_000 {
            let wait = ota_device_poll(device, now)
            if wait > 0 { return wait }
        }
        return 0
    }

    func pass(_ milliseconds: UInt32) {
        now &+= milliseconds
        settle()
    }

    /// Changes the port, for example to remove a callback.
    func change(_ body: (inout ota_port) -> Void) { body(&port.pointee) }
}

extension Bench {
    private static func callbacks() -> ota_port {
        var port = ota_port()
        port.read = { context, area, offset, bytes, count in
            bench(context).flash.read(area, Int(offset), UnsafeMutableBufferPointer(start: bytes, count: Int(count)))
        }
        port.write = { context, area, offset, bytes, count in
            bench(context).flash.write(area, Int(offset), array(bytes, count))
        }
        port.erase = { context, area, offset in bench(context).flash.erase(area, Int(offset)) }
        port.hash_start = { context in bench(context).hashed = [] }
        port.hash_update = { context, bytes, count in
            bench(context).hashed?.append(contentsOf: UnsafeBufferPointer(start: bytes, count: Int(count)))
            bench(context).hashedCount += Int(count)
        }
        port.hash_finish = { context, digest in
            let bench = bench(context)
            guard let hashed = bench.hashed else { return false }
            bench.hashed = nil
            // Writes the digest also if the hash fails: the core must not compare it.
            for (i, byte) in Crypto.sha256(hashed).enumerated() { digest?[i] = byte }
            return !bench.hashFails
        }
        port.verify = { context, key, algorithm, message, count, signature, size in
            let bench = bench(context)
            let trusted = bench.settings.keys[Int(key)]
            bench.verifications += 1
            if algorithm.rawValue != UInt32(trusted.algorithm) { bench.log.append("verify: algorithm \(algorithm)") }
            return trusted.verify(array(signature, size), over: array(message, count))
        }
        port.notify = { context, connection, characteristic, bytes, count in
            let bench = bench(context)
            guard bench.buffers > 0, bench.flash.hasPower else { return false }
            bench.buffers -= 1
            bench.notifications.append(
                Notification(
                    connection: connection, characteristic: characteristic, bytes: array(bytes, UInt32(count))))
            return true
        }
        port.mark = { context, boot, manifest in
            let bench = bench(context)
            guard let manifest = manifest?.pointee, !bench.markFails, bench.flash.hasPower else { return false }
            bench.log.append("mark")
            bench.marks.append(Mark(boot, manifest))
            return true
        }
        port.confirm = { context, counter, digest in
            let bench = bench(context)
            guard !bench.confirmFails else { return false }
            bench.log.append("confirm")
            bench.confirmations.append(Confirmation(counter: counter, digest: digest.map { array($0, 32) }))
            return true
        }
        port.roll_back = { context in bench(context).log.append("roll back") }
        port.reboot = { context in bench(context).log.append("reboot") }
        port.battery = { context in bench(context).battery }
        port.self_test_passed = { context in bench(context).selfTestPassed }
        port.too_old = { context, _ in bench(context).isTooOld }
        port.permits = { context, _ in bench(context).permits }
        port.identify = { context, seconds in bench(context).identified.append(seconds) }
        port.begun = { context, connection in bench(context).begun.append(connection) }
        return port
    }
}

extension Bench.Mark {
    fileprivate init(_ boot: ota_boot, _ manifest: ota_manifest) {
        self.boot = boot
        digest = array(manifest.digest, 32)
        imageDigest = array(manifest.image_digest, 32)
        imageSize = manifest.image_size
        counter = manifest.security_counter
        version = text(manifest.version, manifest.version_size)
        product = text(manifest.product, manifest.product_size)
        source = manifest.source.map { text($0, manifest.source_size) }
    }

    init(_ boot: ota_boot, of release: BenchRelease, version: String = "1.1.0", source: String? = nil) {
        self.boot = boot
        digest = release.digest
        imageDigest = Crypto.sha256(release.image)
        imageSize = UInt32(release.image.count)
        counter = release.counter
        self.version = version
        product = "demo"
        self.source = source
    }
}

/// Returns the bench of a context pointer. The bench outlives its device.
private func bench(_ context: UnsafeMutableRawPointer?) -> Bench {
    guard let context else { preconditionFailure("the core passed no context") }
    return Unmanaged<Bench>.fromOpaque(context).takeUnretainedValue()
}

private func array(_ bytes: UnsafePointer<UInt8>?, _ count: UInt32) -> [UInt8] {
    Array(UnsafeBufferPointer(start: bytes, count: Int(count)))
}

private func text(_ characters: UnsafePointer<CChar>?, _ count: UInt8) -> String {
    String(
        decoding: UnsafeBufferPointer(start: characters, count: Int(count)).map { UInt8(bitPattern: $0) }, as: UTF8.self
    )
}
