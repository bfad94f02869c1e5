/// A change of a device during a scan.
public enum ScanEvent: Sendable, Equatable {
    case appeared(BluetoothDevice)
    case changed(BluetoothDevice)
    /// bluetoothd got no packet from the device for 30 s, or the device no longer matches the filter.
    case disappeared(BluetoothDevice)
}
