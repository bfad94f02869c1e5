import OTAClient
import OTASimulator

/// Detects the changes of a served device that are reported to the user.
struct DeviceObserver {
    private var imageSize: Int?
    private var blinks = 0
    private var version: String?
    private var isOnTrial = false

    /// Returns one sentence for each change since the last call.
    mutating func look(at device: any ObservedDevice) -> [String] {
        var news: [String] = []
        let reception = device.imageReception
        if let reception, imageSize == nil {
            news.append("receiving an image of \(reception.size) bytes, from byte \(reception.offset)")
        }
        if reception == nil, imageSize != nil { news.append("reception ended") }
        imageSize = reception?.size
        let blinks = device.identifyRequests
        news += blinks.dropFirst(self.blinks).map { $0 > 0 ? "blinks for \($0) seconds" : "stops blinking" }
        self.blinks = blinks.count
        guard let running = device.running else {
            // The device is restarting.
            version = nil
            return news
        }
        // `running` describes the last boot. A later confirmation is only in the boot state on flash.
        let isOnTrial = running.isOnTrial && device.bootState?.trial == .running
        if running.image.version != version {
            news.append("runs version \(running.image.version)" + (isOnTrial ? ", on trial" : ""))
        } else if self.isOnTrial, !isOnTrial {
            news.append("version \(running.image.version) is confirmed")
        }
        version = running.image.version
        self.isOnTrial = isOnTrial
        return news
    }
}
