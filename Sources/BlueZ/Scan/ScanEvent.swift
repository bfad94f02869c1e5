/// What a scan tells of a device.
public enum ScanEvent: Sendable, Equatable {
    case appeared(BluetoothDevice)
    case changed(BluetoothDevice)
    /// bluetoothd has not heard of it for 30 s, or it does not fit the filter any more.
    case disappeared(BluetoothDevice)
}
