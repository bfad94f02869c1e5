extension Failure {
    static let bluetoothNotAvailable = Failure(
        "bluetooth-not-available", .unavailable, "this version speaks only to virtual devices, not yet over Bluetooth",
        hint: "try a virtual device: --device sim:")
}
