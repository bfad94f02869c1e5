import COTADevice
import OTAFirmware
import OTASigning

/// The device core with the callbacks that it needs to check envelopes. Every signature by one of its trusted keys is valid.
final class EnvelopeChecker {
    /// The core's status for the last request.
    private(set) var status: ota_status?
    /// The manifest from the core's parser; nil if the core refused the envelope before it called `too_old`.
    private(set) var manifest: Manifest?

    struct Manifest: Equatable {
        var imageDigest, version, product: [UInt8]
        var source: [UInt8]?
        var created: UInt64
        var imageSize, counter: UInt32
        var format: UInt8
    }

    /// The trusted keys. The first one has the lowest possible id.
    static let keys: [(id: [UInt8], algorithm: SignatureAlgorithm)] = [
        ([UInt8](repeating: 0, count: 8), .ed25519), ([UInt8](repeating: 0x80, count: 8), .mlDSA44),
    ]
    static let hardware: UInt16 = 2
    static let battery: UInt8 = 50
    static let counter: UInt32 = 5
    static let largestImage: UInt32 = 65536

    private let device = UnsafeMutablePointer<ota_device>.allocate(capacity: 1)
    private let config = UnsafeMutablePointer<ota_config>.allocate(capacity: 1)
    private let port = UnsafeMutablePointer<ota_port>.allocate(capacity: 1)
    private let page = UnsafeMutablePointer<UInt8>.allocate(capacity: 256)
    private let texts: (product: UnsafeMutablePointer<CChar>, version: UnsafeMutablePointer<CChar>)
    private let keys = UnsafeMutablePointer<UInt8>.allocate(capacity: 8 * EnvelopeChecker.keys.count)
    private let algorithms = UnsafeMutablePointer<UInt8>.allocate(capacity: EnvelopeChecker.keys.count)
    private let envelope = UnsafeMutablePointer<UInt8>.allocate(capacity: Int(OTA_ENVELOPE_LARGEST))
    private var hash = SHA256()
    private var now: UInt32 = 0
    private var tag: UInt8 = 0

    init() {
        func text(_ string: String) -> UnsafeMutablePointer<CChar> {
            let text = UnsafeMutablePointer<CChar>.allocate(capacity: string.utf8.count + 1)
            text.update(from: string.utf8.map { CChar(bitPattern: $0) } + [0], count: string.utf8.count + 1)
            return text
        }
        texts = (text("demo"), text("1.2.3"))
        keys.initialize(from: Self.keys.flatMap(\.id), count: 8 * Self.keys.count)
        algorithms.initialize(from: Self.keys.map(\.algorithm.rawValue), count: Self.keys.count)
        device.initialize(to: ota_device())
        var settings = ota_config()
        (settings.product, settings.version) = (UnsafePointer(texts.product), UnsafePointer(texts.version))
        (settings.key_ids, settings.key_count) = (UnsafePointer(keys), UInt8(Self.keys.count))
        settings.key_algorithms = UnsafePointer(algorithms)
        (settings.envelope, settings.largest_envelope) = (envelope, UInt16(OTA_ENVELOPE_LARGEST))
        settings.security_counter = Self.counter
        settings.hardware = Self.hardware
        settings.largest_image = Self.largestImage
        settings.longest_data = 512
        settings.window = 64
        settings.restart_seconds = 1
        settings.page_size = 256
        settings.slot_size = Self.largestImage
        settings.write_unit = 4
        config.initialize(to: settings)
        port.initialize(to: Self.callbacks())
        let context = Unmanaged.passUnretained(self).toOpaque()
        let error = ota_device_start(device, config, port, context, page, 0)
        precondition(error == OTA_START_OK && ota_device_connected(device, 0, 0))
        ota_device_subscribed(device, 0, OTA_CONTROL, true, 0)
    }

    deinit {
        device.deallocate()
        config.deallocate()
        port.deallocate()
        page.deallocate()
        texts.product.deallocate()
        texts.version.deallocate()
        keys.deallocate()
        algorithms.deallocate()
        envelope.deallocate()
    }

    /// Returns the status for an envelope; nil if the core refuses an object of that size.
    func check(_ envelope: [UInt8]) -> ota_status? {
        manifest = nil
        let count = UInt32(envelope.count)
        let size = (0..<4).map { UInt8(truncatingIfNeeded: count >> (8 * $0)) }
        guard request([1, tag, 1] + size + [0, 0, 0, 0] + SHA256.digest(of: envelope).prefix) == OTA_OK else {
            return nil
        }
        var next = device.pointee.connections.0.next
        for start in stride(from: 0, to: envelope.count, by: 510) {
            let chunk = [UInt8(next & 0xFF), UInt8(next >> 8)] + envelope[start..<min(start + 510, envelope.count)]
            ota_device_write_data(device, 0, chunk, UInt16(chunk.count), now)
            next &+= 1
        }
        return request([3, tag])
    }

    private func request(_ bytes: [UInt8]) -> ota_status? {
        status = nil
        guard ota_device_write_control(device, 0, bytes, UInt16(bytes.count), now) == OTA_ATT_OK else { return nil }
        while ota_device_poll(device, now) == 0 {}
        tag &+= 1
        return status
    }

    private static func callbacks() -> ota_port {
        var port = ota_port()
        port.read = { _, _, _, bytes, count in
            bytes?.update(repeating: 0xFF, count: Int(count))
            return true
        }
        port.write = { _, _, _, _, _ in false }
        port.erase = { _, _, _ in false }
        port.hash_start = { EnvelopeChecker.of($0).hash = SHA256() }
        port.hash_update = { EnvelopeChecker.of($0).hash.update(UnsafeRawBufferPointer(start: $1, count: Int($2))) }
        port.hash_finish = { context, digest in
            let bytes = EnvelopeChecker.of(context).hash.finish().bytes
            EnvelopeChecker.of(context).hash = SHA256()
            digest?.update(from: bytes, count: bytes.count)
            return true
        }
        port.verify = { _, _, _, _, _, _, _ in true }
        port.notify = { context, _, _, bytes, count in
            if count >= 3, let bytes { EnvelopeChecker.of(context).status = ota_status(rawValue: UInt32(bytes[2])) }
            return true
        }
        port.mark = { _, _, _ in false }
        port.confirm = { _, _, _ in false }
        port.roll_back = { _ in }
        port.reboot = { _ in }
        port.battery = { _ in EnvelopeChecker.battery }
        port.too_old = { context, manifest in
            if let manifest { EnvelopeChecker.of(context).manifest = EnvelopeChecker.Manifest(manifest.pointee) }
            return false
        }
        return port
    }

    private static func of(_ context: UnsafeMutableRawPointer?) -> EnvelopeChecker {
        guard let context else { preconditionFailure("the device core passed no context") }
        return Unmanaged<EnvelopeChecker>.fromOpaque(context).takeUnretainedValue()
    }
}

extension EnvelopeChecker.Manifest {
    fileprivate init(_ manifest: ota_manifest) {
        func text(_ start: UnsafePointer<CChar>?, _ count: UInt8) -> [UInt8]? {
            start.map { UnsafeBufferPointer(start: $0, count: Int(count)).map { UInt8(bitPattern: $0) } }
        }
        imageDigest = Array(UnsafeBufferPointer(start: manifest.image_digest, count: 32))
        version = text(manifest.version, manifest.version_size) ?? []
        product = text(manifest.product, manifest.product_size) ?? []
        source = text(manifest.source, manifest.source_size)
        created = manifest.created
        imageSize = manifest.image_size
        counter = manifest.security_counter
        format = manifest.image_format
    }
}
