public import OTAUpdate

/// The characteristics of the profile, and the battery level of the Bluetooth specification.
public enum ProfileChannel {
    public static let service: UInt128 = 0xc7e1_0001_63a0_486d_9bcb_a18d_79d9_acd9

    public static let info = characteristic(2)
    public static let control = characteristic(3)
    public static let data = characteristic(4)
    public static let progress = characteristic(5)
    public static let version = characteristic(6)
    /// The battery level in per cent, u8. A device without it runs on mains power.
    public static let battery = Channel(service: assigned(0x180F), characteristic: assigned(0x2A19))

    /// The channels that every device with this profile must have.
    static let required: Set<Channel> = [info, control, data, progress, version]

    private static func characteristic(_ number: UInt128) -> Channel {
        Channel(service: service, characteristic: service + ((number - 1) << 96))
    }

    /// Returns the full UUID of a 16-bit UUID that the Bluetooth SIG has assigned.
    private static func assigned(_ number: UInt128) -> UInt128 { 0x1000_8000_0080_5f9b_34fb | number << 96 }
}
