public import OTAFirmware
public import OTASigning

/// What a virtual device is: all of it fixed when it is made.
public struct VirtualDeviceConfiguration: Sendable, Equatable {
    public var product: ProductName
    public var hardware: UInt16 = 1
    /// What its bootloader takes.
    public var imageFormat = ImageFormat.raw
    /// 1 to 16 keys.
    public var trustedKeys: [PublicKey]
    /// Per cent; nil: it runs on mains.
    public var battery: Int?
    public var layout = FlashLayout()
    /// Chunks a host may have in flight, 1...2047.
    public var window = 64
    /// Longest Data value in bytes, sequence included, 20...512.
    public var longestData = 512
    /// Longest time, in seconds, from an update's mark until it can be connected again; at least 1.
    public var restartSeconds = 10
    /// Time, in seconds, from boot within which a trial must be confirmed; 0: its bootloader has no way back.
    public var trialSeconds = 60
    /// Whether the device core limits how often its slot is erased.
    public var limitsWear = true

    public init(product: ProductName, trustedKeys: [PublicKey]) {
        self.product = product
        self.trustedKeys = trustedKeys
    }

    /// - Throws: `badConfiguration` with the first thing that is out of its range.
    public func validate() throws(VirtualDeviceError) {
        func demand(_ holds: Bool, _ what: String) throws(VirtualDeviceError) {
            guard holds else { throw VirtualDeviceError(.badConfiguration, what) }
        }
        try demand(1...16 ~= trustedKeys.count, "a device trusts 1 to 16 keys, not \(trustedKeys.count)")
        try demand(Set(trustedKeys.map(\.id)).count == trustedKeys.count, "two trusted keys have one id")
        try demand(battery.map { 0...100 ~= $0 } ?? true, "the battery is a percentage from 0 to 100")
        try demand(1...2047 ~= window, "the window is 1 to 2047 chunks")
        try demand(20...512 ~= longestData, "the longest Data value is 20 to 512 bytes")
        try demand(1...3600 ~= restartSeconds, "the restart takes 1 to 3600 seconds")
        try demand(0...3600 ~= trialSeconds, "the trial takes 0 to 3600 seconds")
        try layout.validate()
    }
}
