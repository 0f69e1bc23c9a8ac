@0x8e2af1e708af8b8d;
# The car's state and what is asked of it, read only. Metres, seconds, degrees where a name says so.

struct CarState {
  errorsDEPRECATED @0 :List(UInt16);
  vEgo @1 :Float32;
  wheelSpeeds @2 :WheelSpeeds;
  gasDEPRECATED @3 :Float32;
  gasPressed @4 :Bool;
  brakeDEPRECATED @5 :Float32;
  brakePressed @6 :Bool;
  steeringAngleDeg @7 :Float32;
  steeringTorque @8 :Float32;
  steeringPressed @9 :Bool;
  cruiseState @10 :CruiseState;
  buttonEvents @11 :List(ButtonEvent);
  canMonoTimesDEPRECATED @12 :List(UInt64);
  eventsDEPRECATED @13 :AnyPointer;
  gearShifter @14 :GearShifter;
  steeringRateDeg @15 :Float32;
  aEgo @16 :Float32;
  vEgoRaw @17 :Float32;
  standstill @18 :Bool;
  brakeLightsDEPRECATED @19 :Bool;
  leftBlinker @20 :Bool;
  rightBlinker @21 :Bool;
  yawRate @22 :Float32;
  genericToggle @23 :Bool;
  doorOpen @24 :Bool;
  seatbeltUnlatched @25 :Bool;
  canValid @26 :Bool;
  steeringTorqueEps @27 :Float32;
  clutchPressedDEPRECATED @28 :Bool;
  steeringRateLimitedDEPRECATED @29 :Bool;
  stockAeb @30 :Bool;
  stockFcw @31 :Bool;
  espDisabled @32 :Bool;
  leftBlindspot @33 :Bool;
  rightBlindspot @34 :Bool;
  steerFaultTemporary @35 :Bool;
  steerFaultPermanent @36 :Bool;
  steeringAngleOffsetDeg @37 :Float32;
  brakeHoldActive @38 :Bool;
  parkingBrake @39 :Bool;
  canTimeout @40 :Bool;
  fuelGauge @41 :Float32;
  accFaulted @42 :Bool;
  charging @43 :Bool;
  vEgoCluster @44 :Float32;
  regenBraking @45 :Bool;
  engineRpmDEPRECATED @46 :Float32;
  carFaultedNonCritical @47 :Bool;
  canErrorCounter @48 :UInt32;
  canRcvTimeoutDEPRECATED @49 :Bool;
  cumLagMs @50 :Float32;
  espActive @51 :Bool;
  vehicleSensorsInvalid @52 :Bool;
  vCruise @53 :Float32;
  vCruiseCluster @54 :Float32;
  invalidLkasSetting @55 :Bool;
  lowSpeedAlert @56 :Bool;
  buttonEnable @57 :Bool;
  steeringDisengage @58 :Bool;
  stockLkas @59 :Bool;
  blockPcmEnable @60 :Bool;
  carNotReady @61 :Bool;

  struct WheelSpeeds {
    fl @0 :Float32;
    fr @1 :Float32;
    rl @2 :Float32;
    rr @3 :Float32;
  }

  struct CruiseState {
    enabled @0 :Bool;
    speed @1 :Float32;
    available @2 :Bool;
    speedOffsetDEPRECATED @3 :Float32;
    standstill @4 :Bool;
    nonAdaptive @5 :Bool;
    speedCluster @6 :Float32;
  }

  enum GearShifter {
    unknown @0;
    park @1;
    drive @2;
    neutral @3;
    reverse @4;
    sport @5;
    low @6;
    brake @7;
    eco @8;
    manumatic @9;
  }

  struct ButtonEvent {
    pressed @0 :Bool;
    type @1 :Type;

    enum Type {
      unknown @0;
      leftBlinker @1;
      rightBlinker @2;
      accelCruise @3;
      decelCruise @4;
      cancel @5;
      lkas @6;
      altButton2 @7;
      mainCruise @8;
      setCruise @9;
      resumeCruise @10;
      gapAdjustCruise @11;
    }
  }
}

struct CarControl {
  enabled @0 :Bool;
  gasDEPRECATED @1 :Float32;
  brakeDEPRECATED @2 :Float32;
  steeringTorqueDEPRECATED @3 :Float32;
  cruiseControl @4 :CruiseControl;
  hudControl @5 :HUDControl;
  actuators @6 :Actuators;
  activeDEPRECATED @7 :Bool;
  rollDEPRECATED @8 :Float32;
  pitchDEPRECATED @9 :Float32;
  actuatorsOutputDEPRECATED @10 :Actuators;
  latActive @11 :Bool;
  longActive @12 :Bool;
  orientationNED @13 :List(Float32);
  angularVelocity @14 :List(Float32);
  leftBlinker @15 :Bool;
  rightBlinker @16 :Bool;
  currentCurvature @17 :Float32;
  driverMonitoringEscalation @18 :Bool;

  struct Actuators {
    gas @0 :Float32;
    brake @1 :Float32;
    torque @2 :Float32;
    steeringAngleDeg @3 :Float32;
    accel @4 :Float32;
    longControlState @5 :LongControlState;
    speed @6 :Float32;
    curvature @7 :Float32;
    torqueOutputCan @8 :Float32;

    enum LongControlState @0xe40f3a917d908282 {
      off @0;
      pid @1;
      stopping @2;
      starting @3;
    }
  }

  struct CruiseControl {
    cancel @0 :Bool;
    resume @1 :Bool;
    speedOverrideDEPRECATED @2 :Float32;
    accelOverrideDEPRECATED @3 :Float32;
    override @4 :Bool;
  }

  struct HUDControl {
    speedVisible @0 :Bool;
    setSpeed @1 :Float32;
    lanesVisible @2 :Bool;
    leadVisible @3 :Bool;
    visualAlert @4 :VisualAlert;
    audibleAlert @5 :AudibleAlert;
    rightLaneVisible @6 :Bool;
    leftLaneVisible @7 :Bool;
    rightLaneDepart @8 :Bool;
    leftLaneDepart @9 :Bool;
    leadDistanceBars @10 :Int8;

    enum VisualAlert {
      none @0;
      fcw @1;
      steerRequired @2;
      brakePressed @3;
      wrongGear @4;
      seatbeltUnbuckled @5;
      speedTooHigh @6;
      ldw @7;
    }

    enum AudibleAlert {
      none @0;
      engage @1;
      disengage @2;
      refuse @3;
      warningSoft @4;
      warningImmediate @5;
      prompt @6;
      promptRepeat @7;
      promptDistracted @8;
    }
  }
}

# Tuning and firmware structs are kept as pointers: they survive, nobody here reads them.
struct CarParams {
  brand @0 :Text;
  carFingerprint @1 :Text;
  enableGasInterceptorDEPRECATED @2 :Bool;
  pcmCruise @3 :Bool;
  enableCameraDEPRECATED @4 :Bool;
  enableDsuDEPRECATED @5 :Bool;
  enableApgsDEPRECATED @6 :Bool;
  minEnableSpeed @7 :Float32;
  minSteerSpeed @8 :Float32;
  safetyModelDEPRECATED @9 :UInt16;
  safetyParamDEPRECATED @10 :Int16;
  steerMaxBPDEPRECATED @11 :List(Float32);
  steerMaxVDEPRECATED @12 :List(Float32);
  gasMaxBPDEPRECATED @13 :List(Float32);
  gasMaxVDEPRECATED @14 :List(Float32);
  brakeMaxBPDEPRECATED @15 :List(Float32);
  brakeMaxVDEPRECATED @16 :List(Float32);
  mass @17 :Float32;
  wheelbase @18 :Float32;
  centerToFront @19 :Float32;
  steerRatio @20 :Float32;
  steerRatioRear @21 :Float32;
  rotationalInertia @22 :Float32;
  tireStiffnessFront @23 :Float32;
  tireStiffnessRear @24 :Float32;
  longitudinalTuning @25 :AnyPointer;
  steerLimitAlertDEPRECATED @28 :Bool;
  vEgoStoppingDEPRECATED @29 :Float32;
  directAccelControlDEPRECATED @30 :Bool;
  stoppingControlDEPRECATED @31 :Bool;
  startAccelDEPRECATED @32 :Float32;
  steerRateCostDEPRECATED @33 :Float32;
  steerControlType @34 :SteerControlType;
  radarUnavailable @35 :Bool;
  steerActuatorDelay @36 :Float32;
  openpilotLongitudinalControl @37 :Bool;
  carVin @38 :Text;
  isPandaBlackDEPRECATED @39 :Bool;
  dashcamOnly @41 :Bool;
  safetyModelPassiveDEPRECATED @42 :UInt16;
  transmissionType @43 :TransmissionType;
  carFw @44 :AnyPointer;
  radarTimeStepDEPRECATED @45 :Float32 = 0.05;
  communityFeatureDEPRECATED @46 :Bool;
  steerLimitTimer @47 :Float32;
  lateralParams @48 :AnyPointer;
  fingerprintSource @49 :FingerprintSource;
  networkLocation @50 :NetworkLocation;
  minSpeedCanDEPRECATED @51 :Float32;
  stoppingDecelRateDEPRECATED @52 :Float32;
  startingAccelRateDEPRECATED @53 :Float32;
  maxSteeringAngleDegDEPRECATED @54 :Float32;
  fuzzyFingerprint @55 :Bool;
  enableBsm @56 :Bool;
  hasStockCameraDEPRECATED @57 :Bool;
  longitudinalActuatorDelay @58 :Float32;
  vEgoStartingDEPRECATED @59 :Float32;
  stopAccel @60 :Float32;
  longitudinalActuatorDelayLowerBoundDEPRECATED @61 :Float32;
  safetyConfigs @62 :AnyPointer;
  wheelSpeedFactor @63 :Float32;
  flags @64 :UInt32;
  alternativeExperience @65 :Int16;
  notCar @66 :Bool;
  maxLateralAccel @68 :Float32;
  autoResumeSng @69 :Bool;
  startingStateDEPRECATED @70 :Bool;
  alphaLongitudinalAvailable @71 :Bool;
  tireStiffnessFactor @72 :Float32;
  passive @73 :Bool;
  radarDelay @74 :Float32;
  secOcRequired @75 :Bool;
  secOcKeyAvailable @76 :Bool;
  steerAtStandstill @77 :Bool;

  lateralTuning :union {
    pid @26 :AnyPointer;
    indiDEPRECATED @27 :AnyPointer;
    lqrDEPRECATED @40 :AnyPointer;
    torque @67 :AnyPointer;
  }

  enum SteerControlType {
    torque @0;
    angle @1;
    curvature @2;
  }

  enum TransmissionType {
    unknown @0;
    automatic @1;
    manual @2;
    direct @3;
    cvt @4;
  }

  enum FingerprintSource {
    can @0;
    fw @1;
    fixed @2;
  }

  enum NetworkLocation {
    fwdCamera @0;
    gateway @1;
  }
}
