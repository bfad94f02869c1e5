import OTAUpdate

extension SMPError {
    /// What it means for an update.
    func update(_ request: SMPRequest) -> UpdateError {
        UpdateError(updateCode, "the device refused \(request.name): \(meaning)")
    }

    private var updateCode: UpdateError.Code {
        switch (group, code) {
        case (nil, 2), (nil, 4), (nil, 10), (1, 15): .deviceBusy
        case (nil, 3), (nil, 5), (nil, 9), (nil, 12), (nil, 13), (1, 16), (1, 17), (1, 20), (1, 21), (1, 24), (1, 31):
            .protocolViolation
        case (nil, 6), (1, 9), (1, 28): .inTrial
        case (nil, 7), (1, 30): .imageTooLarge
        case (nil, 8), (1, 14), (1, 34): .unsupportedDevice
        case (1, 2), (1, 10), (1, 11), (1, 12), (1, 13), (1, 18), (1, 19): .flashFailed
        case (1, 3), (1, 4), (1, 5), (1, 6), (1, 7), (1, 8), (1, 22), (1, 23), (1, 25), (1, 29): .wrongImageFormat
        case (1, 27): .downgrade
        default: .refusedByPolicy
        }
    }
}
