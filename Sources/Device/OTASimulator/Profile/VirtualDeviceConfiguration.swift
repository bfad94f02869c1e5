public import OTAFirmware
public import OTASigning

/// The configuration of a virtual device with the GATT OTA profile. The configuration cannot change after the ``VirtualDevice`` was
/// created.
public struct VirtualDeviceConfiguration: Sendable, Equatable {
    public var product: ProductName
    public var hardware: UInt16 = 1
    /// The format of the images that the device boots. Nil means that the device boots every format.
    public var imageFormat: ImageFormat? = .raw
    /// The device's trusted keys: 1 to 16 keys.
    ///
    /// While the device runs an image that contains its own trusted keys, it trusts these in place of `trustedKeys`
    /// (docs/decisions/0035-keys-of-a-virtual-device.md).
    public var trustedKeys: [PublicKey]
    /// The number of different trusted keys of one algorithm that must have signed a bundle: 1...8.
    public var requiredSignatures = 1
    /// The algorithms that must each have `requiredSignatures` signatures. Empty means that any one algorithm is
    /// enough.
    public var requiredAlgorithms: Set<SignatureAlgorithm> = []
    /// The maximum increase of the security counter by one update. 0 means no limit.
    public var largestCounterStep: UInt32 = 0
    /// The length of the longest envelope that the device can receive, in bytes: 158...65124. The default is 1332, which is enough for four
    /// Ed25519 signatures. For a device with an ML-DSA key, the default is the length of the longest envelope.
    public var largestEnvelope: Int
    /// The battery level in per cent, 0...100. Nil for a device without a battery.
    public var battery: Int?
    public var layout = FlashLayout()
    /// The maximum number of chunks in flight, 1...2047.
    public var window = 64
    /// The maximum length of a value of the Data characteristic in bytes, 20...512. The length includes the sequence number (2 bytes).
    public var longestData = 512
    /// The longest time in seconds from the answer to APPLY until a host can connect again, 1...3600. The device reports this value to the
    /// host, but does not use it for the simulation. The simulated boot takes `bootTime` (800 ms).
    public var restartSeconds = 10
    /// The time in seconds from the boot of an image on trial until the host must confirm the image, 0...3600. The value 0 means that the
    /// bootloader cannot roll back.
    public var trialSeconds = 60
    /// Whether the device accepts encoded images (docs/ota-profile.md, "Encoded images").
    public var offersEncodings = true
    /// Whether the running image can be the base of an encoded image. This value has no effect if ``offersEncodings`` is false.
    public var offersBase = true
    /// The speed of the flash in written bytes per second, at least 1. An erase takes no additional time. Nil means that flash operations
    /// take no time.
    public var flashSpeed: Int?
    /// The time that the device's thread needs for each value of the Data characteristic, in addition to the time of the flash. Stale
    /// values need this time, too.
    public var chunkTime = Duration.zero
    /// The number of Data values that the device's queue can hold, at least 1. The device drops a Data value that arrives while its queue
    /// is full. The queue always has room for the other events. Nil means that the queue has no limit.
    public var queueLength: Int?
    /// Whether the device core limits the number of erases of each page of the slot (docs/ota-profile.md, "What the device does", 7).
    public var limitsWear = true

    public init(product: ProductName, trustedKeys: [PublicKey]) {
        self.product = product
        self.trustedKeys = trustedKeys
        largestEnvelope = trustedKeys.allSatisfy { $0.algorithm == .ed25519 } ? 1332 : Envelope.maximumLength
    }

    /// Checks that all values are in range.
    ///
    /// - Throws: `badConfiguration` for the first value that is out of range.
    public func validate() throws(VirtualDeviceError) {
        func demand(_ holds: Bool, _ what: String) throws(VirtualDeviceError) {
            guard holds else { throw VirtualDeviceError(.badConfiguration, what) }
        }
        try demand(1...16 ~= trustedKeys.count, "the device has \(trustedKeys.count) trusted keys; expected 1 to 16")
        try demand(Set(trustedKeys.map(\.id)).count == trustedKeys.count, "two trusted keys have the same key ID")
        try validatePolicy()
        try demand(battery.map { 0...100 ~= $0 } ?? true, "the battery level is \(battery ?? 0) %; expected 0 to 100")
        try demand(1...2047 ~= window, "the window is \(window) chunks; expected 1 to 2047")
        try demand(20...512 ~= longestData, "the longest Data value is \(longestData) bytes; expected 20 to 512")
        try demand(1...3600 ~= restartSeconds, "the restart time is \(restartSeconds) s; expected 1 to 3600")
        try demand(0...3600 ~= trialSeconds, "the trial time is \(trialSeconds) s; expected 0 to 3600")
        try demand(
            flashSpeed.map { $0 >= 1 } ?? true, "the flash speed is \(flashSpeed ?? 0) bytes/s; expected at least 1")
        try demand(chunkTime >= .zero, "the time for a Data value is \(chunkTime); expected at least 0 seconds")
        try demand(
            queueLength.map { $0 >= 1 } ?? true, "the queue holds \(queueLength ?? 0) Data values; expected at least 1")
        try layout.validate()
    }

    /// Checks that some bundle can have the signatures that the device requires, and that they fit in an envelope.
    private func validatePolicy() throws(VirtualDeviceError) {
        func demand(_ holds: Bool, _ what: String) throws(VirtualDeviceError) {
            guard holds else { throw VirtualDeviceError(.badConfiguration, what) }
        }
        let all = SignatureAlgorithm.allCases
        try demand(
            1...Envelope.maximumSignatures ~= requiredSignatures,
            "the device requires \(requiredSignatures) signatures; expected 1 to \(Envelope.maximumSignatures)")
        let enough = all.filter { algorithm in
            trustedKeys.count { $0.algorithm == algorithm } >= requiredSignatures
        }
        for algorithm in all where requiredAlgorithms.contains(algorithm) {
            try demand(
                enough.contains(algorithm),
                "the device requires \(requiredSignatures) \(algorithm) signatures, but has fewer \(algorithm) keys")
        }
        try demand(
            !enough.isEmpty,
            "the device requires \(requiredSignatures) signatures, but has fewer trusted keys of one algorithm")
        // The algorithms have ascending lengths.
        let algorithms = requiredAlgorithms.isEmpty ? Array(enough.prefix(1)) : Array(requiredAlgorithms)
        let count = algorithms.count * requiredSignatures
        try demand(
            count <= Envelope.maximumSignatures,
            "the device requires \(count) signatures; a bundle has at most \(Envelope.maximumSignatures)")
        let least = algorithms.reduce(82) { $0 + requiredSignatures * (12 + $1.signatureLength) }
        try demand(
            least...Envelope.maximumLength ~= largestEnvelope,
            "the longest envelope is \(largestEnvelope) bytes; expected \(least) to \(Envelope.maximumLength)")
    }
}
