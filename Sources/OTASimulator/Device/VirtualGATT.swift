public import OTAUpdate

/// The GATT table of a virtual device (docs/ota-profile.md). The host has its own constants, so that an error in one of the two shows in
/// tests.
public enum VirtualGATT {
    public static let service: UInt128 = 0xc7e10001_63a0_486d_9bcb_a18d79d9acd9
    public static let info = Channel(service: service, characteristic: 0xc7e10002_63a0_486d_9bcb_a18d79d9acd9)
    public static let control = Channel(service: service, characteristic: 0xc7e10003_63a0_486d_9bcb_a18d79d9acd9)
    public static let data = Channel(service: service, characteristic: 0xc7e10004_63a0_486d_9bcb_a18d79d9acd9)
    public static let progress = Channel(service: service, characteristic: 0xc7e10005_63a0_486d_9bcb_a18d79d9acd9)
    public static let version = Channel(service: service, characteristic: 0xc7e10006_63a0_486d_9bcb_a18d79d9acd9)
    /// The level of the standard Battery service (service 0x180F, characteristic 0x2A19).
    public static let battery = Channel(
        service: 0x0000180F_0000_1000_8000_00805F9B34FB, characteristic: 0x00002A19_0000_1000_8000_00805F9B34FB)
}
