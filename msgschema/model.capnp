@0xb6ebd9f2bb2b8e05;
# What the driving model publishes. Fields stand in ordinal order, because ordinals and types fix
# the layout on the wire; retired fields carry DEPRECATED and keep their place.
# Units: metres, seconds, radians; device frame (x forward, y right, z down).

struct XYZTData @0xc3cbae1fd505ae80 {
  x @0 :List(Float32);
  y @1 :List(Float32);
  z @2 :List(Float32);
  t @3 :List(Float32);
  xStd @4 :List(Float32);
  yStd @5 :List(Float32);
  zStd @6 :List(Float32);
}

enum LaneChangeState @0xcd37924bf7b2d3d2 {
  off @0;
  preLaneChange @1;
  laneChangeStarting @2;
  laneChangeFinishing @3;
}

enum LaneChangeDirection @0x9d0bc0c1fe671176 {
  none @0;
  left @1;
  right @2;
}

struct ModelDataV2 @0xc4713f6b0d36abe9 {
  frameId @0 :UInt32;
  # Camera frames that passed while the model worked on this one.
  frameAge @1 :UInt32;
  frameDropPerc @2 :Float32;
  timestampEof @3 :UInt64;

  position @4 :XYZTData;
  orientation @5 :XYZTData;
  velocity @6 :XYZTData;
  orientationRate @7 :XYZTData;

  # Four lines, left to right: the outer left, our lane's two, the outer right.
  laneLines @8 :List(XYZTData);
  laneLineProbs @9 :List(Float32);
  roadEdges @10 :List(XYZTData);
  leadsDEPRECATED @11 :List(LeadDataV2DEPRECATED);
  meta @12 :MetaData;
  laneLineStds @13 :List(Float32);
  roadEdgeStds @14 :List(Float32);
  modelExecutionTime @15 :Float32;
  rawPredictions @16 :Data;
  gpuExecutionTimeDEPRECATED @17 :Float32;
  leadsV3 @18 :List(LeadDataV3);
  acceleration @19 :XYZTData;
  # Frame id of the second camera; equals frameId on a device with one.
  frameIdExtra @20 :UInt32;
  temporalPoseDEPRECATED @21 :Pose;
  navEnabledDEPRECATED @22 :Bool;
  confidence @23 :ConfidenceClass;
  locationMonoTimeDEPRECATED @24 :UInt64;
  lateralPlannerSolutionDEPRECATED @25 :AnyPointer;
  action @26 :Action;
  # The large model made this message.
  big @27 :Bool;

  struct LeadDataV2DEPRECATED {
    prob @0 :Float32;
    t @1 :Float32;
    xyva @2 :List(Float32);
    xyvaStd @3 :List(Float32);
  }

  struct LeadDataV3 {
    prob @0 :Float32;
    probTime @1 :Float32;
    t @2 :List(Float32);
    x @3 :List(Float32);
    xStd @4 :List(Float32);
    y @5 :List(Float32);
    yStd @6 :List(Float32);
    v @7 :List(Float32);
    vStd @8 :List(Float32);
    a @9 :List(Float32);
    aStd @10 :List(Float32);
  }

  struct MetaData {
    engagedProb @0 :Float32;
    desirePrediction @1 :List(Float32);
    brakeDisengageProbDEPRECATED @2 :Float32;
    gasDisengageProbDEPRECATED @3 :Float32;
    steerOverrideProbDEPRECATED @4 :Float32;
    desireState @5 :List(Float32);
    disengagePredictions @6 :DisengagePredictions;
    hardBrakePredicted @7 :Bool;
    laneChangeState @8 :LaneChangeState;
    laneChangeDirection @9 :LaneChangeDirection;
  }

  enum ConfidenceClass {
    red @0;
    yellow @1;
    green @2;
  }

  struct DisengagePredictions {
    t @0 :List(Float32);
    brakeDisengageProbs @1 :List(Float32);
    gasDisengageProbs @2 :List(Float32);
    steerOverrideProbs @3 :List(Float32);
    brake3MetersPerSecondSquaredProbs @4 :List(Float32);
    brake4MetersPerSecondSquaredProbs @5 :List(Float32);
    brake5MetersPerSecondSquaredProbs @6 :List(Float32);
    gasPressProbs @7 :List(Float32);
    brakePressProbs @8 :List(Float32);
  }

  struct Pose {
    trans @0 :List(Float32);
    rot @1 :List(Float32);
    transStd @2 :List(Float32);
    rotStd @3 :List(Float32);
  }

  struct Action {
    desiredCurvature @0 :Float32;
    desiredAcceleration @1 :Float32;
    shouldStop @2 :Bool;
  }
}

struct DrivingModelData @0xe8f9ba819993a776 {
  frameId @0 :UInt32;
  frameIdExtra @1 :UInt32;
  action @2 :ModelDataV2.Action;
  laneLineMeta @3 :LaneLineMeta;
  meta @4 :MetaData;
  path @5 :PolyPath;
  frameDropPerc @6 :Float32;
  modelExecutionTime @7 :Float32;
  big @8 :Bool;

  struct PolyPath {
    # Coefficients of t^0 upwards.
    xCoefficients @0 :List(Float32);
    yCoefficients @1 :List(Float32);
    zCoefficients @2 :List(Float32);
  }

  struct LaneLineMeta {
    leftY @0 :Float32;
    rightY @1 :Float32;
    leftProb @2 :Float32;
    rightProb @3 :Float32;
  }

  struct MetaData {
    laneChangeState @0 :LaneChangeState;
    laneChangeDirection @1 :LaneChangeDirection;
  }
}

struct CameraOdometry @0xfa9a296b9fd41a96 {
  # Metres and radians per second, with standard deviations.
  trans @0 :List(Float32);
  rot @1 :List(Float32);
  transStd @2 :List(Float32);
  rotStd @3 :List(Float32);
  frameId @4 :UInt32;
  timestampEof @5 :UInt64;
  wideFromDeviceEuler @6 :List(Float32);
  wideFromDeviceEulerStd @7 :List(Float32);
  roadTransformTrans @8 :List(Float32);
  roadTransformTransStd @9 :List(Float32);
}
