public import OTAUpdate

/// The one characteristic of SMP over GATT (Zephyr, `smp_transport.rst`): write without response, and notify. A transport
/// with one pipe, UDP or serial, carries this channel.
public enum SMPChannel {
    public static let value = Channel(
        service: 0x8D53DC1D_1DB7_4CD3_868B_8A527460AA84, characteristic: 0xDA2E7828_FBCE_4E01_AE9E_261174997C48)
}
