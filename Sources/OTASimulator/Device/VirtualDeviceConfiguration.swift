public import OTAFirmware
public import OTASigning

/// The configuration of a virtual device, fixed at its creation.
public struct VirtualDeviceConfiguration: Sendable, Equatable {
    public var product: ProductName
    public var hardware: UInt16 = 1
    /// The format of the images that the device boots. Nil means any format.
    public var imageFormat: ImageFormat? = .raw
    /// The trusted keys, 1 to 16.
    public var trustedKeys: [PublicKey]
    /// The battery level in per cent; nil for a mains-powered device.
    public var battery: Int?
    public var layout = FlashLayout()
    /// The maximum number of chunks in flight, 1...2047.
    public var window = 64
    /// The maximum length of a value of the Data characteristic in bytes, including the sequence number, 20...512.
    public var longestData = 512
    /// The maximum time in seconds from the mark of an image for boot until the device accepts connections again, 1...3600.
    public var restartSeconds = 10
    /// The time in seconds from the boot until an image on trial must be confirmed, 0...3600. The value 0 means that the bootloader does
    /// not support rollback.
    public var trialSeconds = 60
    /// Whether the device core limits how often it erases each page of its slot.
    public var limitsWear = true

    public init(product: ProductName, trustedKeys: [PublicKey]) {
        self.product = product
        self.trustedKeys = trustedKeys
    }

    /// Checks the values.
    ///
    /// - Throws: `badConfiguration` for the first value that is out of range.
    public func validate() throws(VirtualDeviceError) {
        func demand(_ holds: Bool, _ what: String) throws(VirtualDeviceError) {
            guard holds else { throw VirtualDeviceError(.badConfiguration, what) }
        }
        try demand(1...16 ~= trustedKeys.count, "the device has \(trustedKeys.count) trusted keys; expected 1 to 16")
        try demand(Set(trustedKeys.map(\.id)).count == trustedKeys.count, "two trusted keys have the same key ID")
        try demand(battery.map { 0...100 ~= $0 } ?? true, "the battery level is \(battery ?? 0) %; expected 0 to 100")
        try demand(1...2047 ~= window, "the window is \(window) chunks; expected 1 to 2047")
        try demand(20...512 ~= longestData, "the longest Data value is \(longestData) bytes; expected 20 to 512")
        try demand(1...3600 ~= restartSeconds, "the restart time is \(restartSeconds) s; expected 1 to 3600")
        try demand(0...3600 ~= trialSeconds, "the trial time is \(trialSeconds) s; expected 0 to 3600")
        try layout.validate()
    }
}
