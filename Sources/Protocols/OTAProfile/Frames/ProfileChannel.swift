public import OTAUpdate

/// The GATT characteristics that the profile uses (docs/ota-profile.md, "The service").
public enum ProfileChannel {
    /// The UUID of the OTA service.
    public static let service: UInt128 = 0xc7e1_0001_63a0_486d_9bcb_a18d_79d9_acd9

    /// The characteristic Info, from which the host reads the description of the device.
    public static let info = characteristic(2)
    /// The characteristic Control for requests and their answers.
    public static let control = characteristic(3)
    /// The characteristic Data for chunks.
    public static let data = characteristic(4)
    /// The characteristic Progress, which reports the state and the position of the device.
    public static let progress = characteristic(5)
    /// The characteristic Version, from which the host reads the version of the running firmware.
    public static let version = characteristic(6)
    /// The battery level of the standard Battery service, in per cent. A device without this service runs on mains power.
    public static let battery = Channel(service: assigned(0x180F), characteristic: assigned(0x2A19))

    /// The channels that every device with this profile must have.
    static let required: Set<Channel> = [info, control, data, progress, version]

    /// Returns the channel of a characteristic of the OTA service. `number` is the last digit of the first 32 bits of the UUID.
    private static func characteristic(_ number: UInt128) -> Channel {
        Channel(service: service, characteristic: service + ((number - 1) << 96))
    }

    /// Returns the 128-bit form of `number`, a 16-bit UUID that the Bluetooth SIG has assigned.
    ///
    /// The other bits are those of the Bluetooth Base UUID (`00000000-0000-1000-8000-00805F9B34FB`).
    private static func assigned(_ number: UInt128) -> UInt128 { 0x1000_8000_0080_5f9b_34fb | number << 96 }
}
