public import OTAUpdate

/// What a virtual device has in its GATT table (docs/ota-profile.md). A host has constants of its own: the two ends share
/// none.
public enum VirtualGATT {
    public static let service: UInt128 = 0xc7e10001_63a0_486d_9bcb_a18d79d9acd9
    public static let info = Channel(service: service, characteristic: 0xc7e10002_63a0_486d_9bcb_a18d79d9acd9)
    public static let control = Channel(service: service, characteristic: 0xc7e10003_63a0_486d_9bcb_a18d79d9acd9)
    public static let data = Channel(service: service, characteristic: 0xc7e10004_63a0_486d_9bcb_a18d79d9acd9)
    public static let progress = Channel(service: service, characteristic: 0xc7e10005_63a0_486d_9bcb_a18d79d9acd9)
    public static let version = Channel(service: service, characteristic: 0xc7e10006_63a0_486d_9bcb_a18d79d9acd9)
    /// The standard Battery service's level, 0x180F and 0x2A19.
    public static let battery = Channel(
        service: 0x0000180F_0000_1000_8000_00805F9B34FB, characteristic: 0x00002A19_0000_1000_8000_00805F9B34FB)
}
