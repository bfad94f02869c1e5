import COTADevice

/// `ota_config` as a value type. The defaults are those of the specification's example.
struct Settings {
    var product: String? = "demo"
    var version: String? = "1.0.0"
    var keys: [SigningKey] = [.rfc8032]
    var keyIDs: [[UInt8]]?
    /// `key_algorithms`; nil: NULL if all keys are Ed25519 keys.
    var keyAlgorithms: [UInt8]?
    var hasEnvelope = true
    var largestEnvelope = UInt16(OTA_ENVELOPE_DEFAULT)
    var runningDigest: [UInt8]?
    var counter: UInt32 = 5
    var trialCounter: UInt32 = 0
    var onTrial = false
    var format: UInt8 = 0
    var hardware: UInt16 = 2
    var largestImage: UInt32 = 16384
    var longestData: UInt16 = 244
    var window: UInt16 = 64
    var restartSeconds: UInt16 = 5
    var trialSeconds: UInt16 = 60
    var pageSize: UInt32 = 256
    var slotSize: UInt32 = 16384
    var writeUnit: UInt8 = 4
    var eraseAhead = false
    var eraseStep: UInt16 = 1
    var requiredSignatures: UInt8 = 0
    var requiredAlgorithms: UInt8 = 0
    var largestCounterStep: UInt32 = 0
    var permanentAllowed = false
    var wearMinutes: UInt8 = 0
    /// Whether the device has a decoder for encoded images.
    var hasDecoder = false
    /// The bytes of the running image's slot. They are the area OTA_AREA_BASE.
    var base: [UInt8] = []
    /// `base_size`; nil: the number of bytes in `base`.
    var baseSize: UInt32?
}

/// The C structure and the memory of its pointers. It must live as long as the device runs.
final class Configuration {
    let pointer = UnsafeMutablePointer<ota_config>.allocate(capacity: 1)
    private let decoder = UnsafeMutablePointer<ota_decoder>.allocate(capacity: 1)
    private var texts: [UnsafeMutableBufferPointer<CChar>] = []
    private var byteLists: [UnsafeMutableBufferPointer<UInt8>] = []

    init(_ settings: Settings) {
        pointer.initialize(to: ota_config())
        pointer.pointee.product = text(settings.product)
        pointer.pointee.version = text(settings.version)
        let ids = settings.keyIDs ?? settings.keys.map(\.id)
        pointer.pointee.key_ids = list(ids.flatMap { $0 })
        pointer.pointee.key_count = UInt8(ids.count)
        let algorithms = settings.keyIDs == nil ? settings.keys.map(\.algorithm) : []
        pointer.pointee.key_algorithms =
            (settings.keyAlgorithms ?? algorithms.first { $0 != 1 }.map { _ in algorithms })
            .flatMap(list)
        pointer.pointee.envelope =
            settings.hasEnvelope
            ? UnsafeMutablePointer(
                mutating: list([UInt8](repeating: 0x77, count: Int(settings.largestEnvelope)))) : nil
        pointer.pointee.largest_envelope = settings.largestEnvelope
        pointer.pointee.running_digest = settings.runningDigest.flatMap(list)
        pointer.pointee.security_counter = settings.counter
        pointer.pointee.trial_security_counter = settings.trialCounter
        pointer.pointee.on_trial = settings.onTrial
        pointer.pointee.image_format = settings.format
        pointer.pointee.hardware = settings.hardware
        pointer.pointee.largest_image = settings.largestImage
        pointer.pointee.longest_data = settings.longestData
        pointer.pointee.window = settings.window
        pointer.pointee.restart_seconds = settings.restartSeconds
        pointer.pointee.trial_seconds = settings.trialSeconds
        pointer.pointee.page_size = settings.pageSize
        pointer.pointee.slot_size = settings.slotSize
        pointer.pointee.write_unit = settings.writeUnit
        pointer.pointee.erase_ahead = settings.eraseAhead
        pointer.pointee.erase_step = settings.eraseStep
        pointer.pointee.required_signatures = settings.requiredSignatures
        pointer.pointee.required_algorithms = settings.requiredAlgorithms
        pointer.pointee.largest_counter_step = settings.largestCounterStep
        pointer.pointee.permanent_allowed = settings.permanentAllowed
        pointer.pointee.wear_minutes = settings.wearMinutes
        // The core must set each member that it uses.
        UnsafeMutableRawPointer(decoder).initializeMemory(
            as: UInt8.self, repeating: 0x77, count: MemoryLayout<ota_decoder>.size)
        pointer.pointee.decoder = settings.hasDecoder ? decoder : nil
        pointer.pointee.base_size = settings.baseSize ?? UInt32(settings.base.count)
    }

    private func text(_ string: String?) -> UnsafePointer<CChar>? {
        guard let string else { return nil }
        let buffer = UnsafeMutableBufferPointer<CChar>.allocate(capacity: string.utf8.count + 1)
        _ = buffer.initialize(from: string.utf8.map { CChar(bitPattern: $0) } + [0])
        texts.append(buffer)
        return UnsafePointer(buffer.baseAddress)
    }

    private func list(_ bytes: [UInt8]) -> UnsafePointer<UInt8>? {
        let buffer = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: max(bytes.count, 1))
        _ = buffer.initialize(from: bytes)
        byteLists.append(buffer)
        return UnsafePointer(buffer.baseAddress)
    }

    deinit {
        for text in texts { text.deallocate() }
        for list in byteLists { list.deallocate() }
        decoder.deallocate()
        pointer.deallocate()
    }
}
